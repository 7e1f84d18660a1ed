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
