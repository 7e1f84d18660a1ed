//! Tests of names.

extern crate std;
use std::format;

use super::*;

/// Displays the name of the function at an address.
struct Named(usize);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(&mut Memory::new(), self.0, f)
    }
}

#[test]
fn exported_functions_are_named() {
    let function = libc::sched_getcpu as *const () as usize;
    assert!(is_function(&mut Memory::new(), function));
    assert!(!is_function(&mut Memory::new(), function + 1));
    assert_eq!(format!("{}", Named(function)), "sched_getcpu");
    assert_eq!(format!("{}", Named(function + 1)), "sched_getcpu");
}

#[test]
fn other_addresses_are_written_as_they_are() {
    let own = format!("{}", Named(exported_functions_are_named as *const () as usize));
    assert!(own.starts_with("program+0x"), "{own}");
    assert_eq!(format!("{}", Named(16)), "0x10");
}

/// An entry by `dladdr1`, which finds it by its address.
fn section_by_dladdr(found: *const core::ffi::c_void) -> u64 {
    const RTLD_DL_SYMENT: i32 = 1;
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let mut entry = core::ptr::null_mut();
    // SAFETY: `info` and `entry` are valid for the call to fill.
    unsafe { libc::dladdr1(found, info.as_mut_ptr(), &raw mut entry, RTLD_DL_SYMENT) };
    // SAFETY: an entry of libc, which stays.
    unsafe { entry.cast_const().cast::<libc::Elf64_Sym>().read().st_shndx.into() }
}

#[test]
fn symbols_are_found_by_their_names() {
    // SAFETY: libc stays.
    let mut memory = unsafe { Memory::that_stays() };
    let libc = libc::getpid as *const () as usize;
    for name in [c"getpid", c"qsort", c"environ", c"_dl_find_object", c"__libc_single_threaded"] {
        // SAFETY: a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        let section = section_of(&mut memory, found.expose_provenance(), name.to_bytes());
        assert_eq!(section, Some(section_by_dladdr(found)), "{name:?}");
        assert_eq!(is_stub(found.addr(), name.to_bytes()), Some(false));
    }
    for name in ["no_such_function", "", "getpi", "getpidd"] {
        assert_eq!(section_of(&mut memory, libc, name.as_bytes()), None, "{name}");
    }
    assert_eq!(section_of(&mut memory, 16, b"getpid"), None, "no object is there");
}
