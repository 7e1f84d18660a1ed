//! `object`.

use sheaves_sys::object::*;

#[test]
fn is_same_object_distinguishes_objects() {
    static HERE: u8 = 0;
    let (here, libc) = ((&raw const HERE).cast(), libc::getpid as *const _);
    assert!(is_same_object(here, is_same_object_distinguishes_objects as *const _));
    assert!(!is_same_object(here, libc));
    assert!(!is_same_object(core::ptr::null(), core::ptr::null()));
}

#[test]
#[cfg(target_env = "gnu")]
fn symbols_and_their_objects_are_found() {
    let found = first_symbol(c"getpid");
    assert!(is_same_object(found, libc::getpid as *const _));
    assert!(object_name(found).unwrap().to_str().unwrap().contains("libc.so"));
    assert!(first_symbol(c"no_such_function").is_null());
    assert!(object_name(core::ptr::null()).is_none());
}
