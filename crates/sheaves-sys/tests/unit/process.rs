//! Tests of private items of `process`.

extern crate std;

use super::*;

#[test]
fn is_same_object_distinguishes_objects() {
    let (here, libc) = (id as *const _, libc::getpid as *const _);
    assert!(is_same_object(here, kernel_files_are_read as *const _));
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
    let this = std::env::current_exe().unwrap();
    let program = std::path::PathBuf::from(program().unwrap().to_str().unwrap());
    assert_eq!(program.file_name(), this.file_name());
}

#[test]
fn kernel_files_are_read() {
    let mut buffer = [0_u8; 64];
    assert!(read_file(c"/proc/self/stat", &mut buffer).unwrap() > 0);
    assert!(read_file(c"/nowhere/at/all", &mut buffer).is_none());
    assert_ne!(random_seed(), 0);
}
