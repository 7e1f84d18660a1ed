//! The loaded object that this copy of the library is in: the program, or a shared object.
//!
//! An object that was loaded by `dlopen` may be unloaded while the library's thread runs its code,
//! libc calls its functions at the end of threads, and the kernel reads its descriptors of critical
//! sections. So it has to stay. `libsheaves` and the preload object are linked for that. Any other,
//! such as a plugin in Rust that contains the library, opens itself once more when it is loaded.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;

use crate::{function, tls};

/// By its address one copy of the library in a process is told from another.
pub static COPY: u8 = 0;

/// True where the preload object is in the process, and this code is not of it: what is said once
/// for a process is said by the preload object. Only for constructors and destructors.
#[must_use]
pub fn is_beside_preload() -> bool {
    let mark = symbol(c"sheaves_preload_copy").cast::<*const u8>();
    // SAFETY: null, or the preload object's static, which has this type.
    let copy = unsafe { mark.as_ref() };
    copy.is_some_and(|copy| !core::ptr::eq(*copy, &raw const COPY))
}

/// The first definition of a symbol in the process, null where there is none.
fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: `name` is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        // Otherwise the program's next call of it would return this failure.
        // SAFETY: no precondition.
        let _ = unsafe { libc::dlerror() };
    }
    found
}

/// Tags of the dynamic section, from `<elf.h>`.
const DT_NULL: usize = 0;
/// In programs only.
const DT_DEBUG: usize = 21;
const DT_FLAGS_1: usize = 0x6fff_fffb;
/// In [`DT_FLAGS_1`]: the object is never unloaded.
const DF_1_NODELETE: usize = 8;

/// True for a shared object that may be unloaded.
fn may_be_unloaded() -> bool {
    let section = tls::dynamic_section();
    if section.is_null() {
        return false;
    }
    for index in 0.. {
        // SAFETY: the section ends with `DT_NULL`, where this ends.
        let [tag, value] = unsafe { section.wrapping_add(index).read() };
        match tag {
            DT_NULL => break,
            DT_DEBUG => return false,
            DT_FLAGS_1 if value & DF_1_NODELETE != 0 => return false,
            _ => {}
        }
    }
    true
}

/// Keeps this object loaded until the process ends. Nothing to do for a program.
fn hold() {
    type Open = unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void;
    if !may_be_unloaded() {
        return;
    }
    // By its name: a static program would get `dlopen`, and a warning of the linker.
    // SAFETY: null, or libc's function or the preload object's, which have this type.
    let open = unsafe { function::at::<Open>(symbol(c"dlopen")) };
    let mut own = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `own` is valid for the call to fill, for any address.
    let is_known = unsafe { libc::dladdr((&raw const COPY).cast(), own.as_mut_ptr()) } != 0;
    if let Some(open) = open.filter(|_| is_known) {
        // SAFETY: filled.
        let name = unsafe { own.assume_init() }.dli_fname;
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: the object's own name; its constructors are running. The handle is never closed.
        let _held = unsafe { open(name, flags) };
    }
}

crate::run_when_loaded!(hold());
