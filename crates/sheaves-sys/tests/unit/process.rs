//! Tests of private items of `process`.

use super::*;

#[test]
fn is_same_object_distinguishes_objects() {
    let (here, libc) = (id as *const _, libc::getpid as *const _);
    assert!(is_same_object(here, kernel_files_are_read as *const _));
    assert!(!is_same_object(here, libc));
    assert!(!is_same_object(core::ptr::null(), core::ptr::null()));
}

#[test]
fn kernel_files_are_read() {
    let mut buffer = [0_u8; 64];
    assert!(read_file(c"/proc/self/stat", &mut buffer).unwrap() > 0);
    assert!(read_file(c"/nowhere/at/all", &mut buffer).is_none());
    assert_ne!(random_seed(), 0);
}
