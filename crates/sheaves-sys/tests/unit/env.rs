//! Tests of private items of `env`.

use super::*;

#[test]
fn value_needs_the_whole_name() {
    assert_eq!(value_of(b"SHEAVES_X=1", "SHEAVES_X"), Some(&b"1"[..]));
    assert_eq!(value_of(b"SHEAVES_XY=1", "SHEAVES_X"), None);
    assert_eq!(value_of(b"SHEAVES_X", "SHEAVES_X"), None);
}

#[test]
fn path_is_found_both_ways() {
    assert!(lookup("PATH", |value| !value.is_empty()).unwrap());
    assert!(lookup_in_proc("PATH", |value| !value.is_empty()).unwrap());
    assert!(lookup("SHEAVES_SURELY_UNSET", |_| ()).is_none());
}
