//! `glibc`: the C library's own malloc, and the proof that it is really that one.

use core::ffi::CStr;
use core::hint::black_box;

use super::allocator::Allocator;
use crate::harness::Failure;

#[derive(Debug, Default)]
pub(crate) struct Glibc;

impl Allocator for Glibc {
    #[inline]
    fn alloc(&self, size: usize) -> *mut u8 {
        // SAFETY: malloc may be called with any size.
        unsafe { libc::malloc(size) }.cast()
    }

    #[inline]
    unsafe fn free(&self, object: *mut u8, _size: usize) {
        // SAFETY: the object came from malloc and is given up here.
        unsafe { libc::free(object.cast()) }
    }

    unsafe fn realloc(&self, object: *mut u8, size: usize) -> *mut u8 {
        // SAFETY: the object came from malloc.
        unsafe { libc::realloc(object.cast(), size) }.cast()
    }

    fn calloc(&self, size: usize) -> *mut u8 {
        // SAFETY: calloc may be called with any size.
        unsafe { libc::calloc(1, size) }.cast()
    }

    fn ask_statistics(&self) -> bool {
        // SAFETY: the function has no precondition.
        black_box(unsafe { libc::mallinfo2() });
        true
    }

    fn trim(&self) -> bool {
        // SAFETY: the function has no precondition.
        unsafe { libc::malloc_trim(0) };
        true
    }
}

/// Refuses to go on when `malloc` is not glibc's, as under a preloaded allocator or when a linked
/// one has taken the name: the contender `glibc` would then measure something else.
pub(crate) fn check_origin() -> Result<(), Failure> {
    for (name, address) in [
        ("malloc", libc::malloc as *const libc::c_void),
        ("free", libc::free as *const libc::c_void),
    ] {
        let origin = origin_of(address);
        if !is_glibc(&origin) {
            return Err(Failure::run(format!(
                "{name} comes from {origin} instead of glibc, so the contender `glibc` would \
                 measure that: run without a preloaded allocator"
            )));
        }
    }
    Ok(())
}

/// The file that an address was loaded from.
fn origin_of(address: *const libc::c_void) -> String {
    // SAFETY: Dl_info is made of pointers only, for which all zeros is a value.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: dladdr reads no memory behind the address and fills in `info`.
    let found = unsafe { libc::dladdr(address, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return "an unknown file".to_owned();
    }
    // SAFETY: dladdr gave a C string that lives as long as the object is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    name.to_string_lossy().into_owned()
}

fn is_glibc(origin: &str) -> bool {
    let file = origin.rsplit('/').next().unwrap_or(origin);
    file.starts_with("libc.so") || file.starts_with("libc-2.")
}

#[cfg(test)]
#[path = "../../../tests/unit/contenders_allocators_glibc.rs"]
mod tests;
