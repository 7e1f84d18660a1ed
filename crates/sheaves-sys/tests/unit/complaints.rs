//! Tests of private items of `options/complaints`.

extern crate std;

use std::vec::Vec;

use super::*;
use crate::options::{ENGINE, PROF, RCU_AGE_MS, SLOTS};

const TABLE: &[&Opt] = &[&ENGINE, &PROF, &SLOTS, &RCU_AGE_MS];

/// The option that a name is taken for.
fn meant(name: &str) -> Option<&'static str> {
    match judge(TABLE, name, b"1") {
        Some(Wrong::Name(option)) => Some(option.name()),
        _ => None,
    }
}

#[test]
fn a_misspelt_name_is_near_the_one_that_is_meant() {
    assert_eq!(meant("SHEAVES_PROFF"), Some("SHEAVES_PROF"));
    assert_eq!(meant("SHEAVES_PRO"), Some("SHEAVES_PROF"));
    assert_eq!(meant("SHEAVES_PORF"), Some("SHEAVES_PROF"));
    assert_eq!(meant("SHEAVES_SLOTZ"), Some("SHEAVES_SLOTS"));
    assert_eq!(meant("SHEAVES_RCU_AGE"), None);
    assert_eq!(meant("SHEAVES_PROFILE_OF_SOMETHING_ELSE"), None);
    assert_eq!(meant("SHEAVES_TEST_X"), None);
    assert_eq!(meant("SHEAVES_PROF"), None);
}

#[test]
fn a_value_is_wrong_if_it_is_there_and_means_nothing() {
    let is_wrong = |value: &[u8]| match judge(TABLE, "SHEAVES_SLOTS", value) {
        Some(Wrong::Value(option)) => option.name() == "SHEAVES_SLOTS",
        _ => false,
    };
    assert!(is_wrong(b"many") && is_wrong(b"0") && is_wrong(b"\xff"));
    assert!(!is_wrong(b"") && !is_wrong(b"7"));
}

#[test]
fn distances_count_single_edits() {
    for (one, other, edits) in [
        ("", "", 0),
        ("abc", "", 3),
        ("", "abc", 3),
        ("abc", "abc", 0),
        ("abc", "abd", 1),
        ("abc", "ac", 1),
        ("ac", "abc", 1),
        ("abc", "bca", 2),
        ("kitten", "sitting", 3),
    ] {
        assert_eq!(distance(one, other), edits, "{one} {other}");
    }
    assert_eq!(distance("x", "123456789012345678901234567890123"), usize::MAX);
}

unsafe extern "C" {
    static mut environ: *const *const libc::c_char;
}

/// True if a process with this environment finds these digits, and nothing behind them.
fn found_in(variables: &[&CStr], expected: &[u8]) -> bool {
    let mut table: Vec<_> = variables.iter().map(|variable| variable.as_ptr()).collect();
    table.push(core::ptr::null());
    // SAFETY: the child has this thread alone, and ends below.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a table of C strings with a null pointer at its end; no other thread reads it.
        unsafe { environ = table.as_ptr() };
        let Reported { digits, used, .. } = Reported::of_environment();
        let is_right = &digits[..used] == expected && digits[used..].iter().all(|byte| *byte == 0);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = -1;
    // SAFETY: waits for the child that was just made.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status == 0
}

#[test]
fn the_first_of_several_variables_counts() {
    let [short, long] = [c"SHEAVES_REPORTED=01234567", c"SHEAVES_REPORTED=89abcdef01234567"];
    assert!(found_in(&[short, long], b"01234567"));
    assert!(found_in(&[long, c"SHEAVES_X=1", short], b"89abcdef01234567"));
    // Not hashes: as if there were none.
    assert!(found_in(&[c"SHEAVES_REPORTED=1", long], b""));
}

#[test]
fn a_line_is_noted_once_and_the_oldest_makes_room() {
    let mut reported =
        Reported { digits: [0; HASHES_MAX * DIGITS + 1], used: 0, is_changed: false };
    reported.add(format_args!("a test of reports, which says this once"));
    assert!(reported.is_changed && reported.used == DIGITS);
    let first = reported.digits;
    reported.is_changed = false;
    reported.add(format_args!("a test of reports, which says this {}", "once"));
    assert!(!reported.is_changed && reported.digits == first);
    for number in 0..HASHES_MAX {
        reported.add(format_args!("a test of reports, number {number}"));
    }
    assert_eq!(reported.used, HASHES_MAX * DIGITS);
    assert_eq!(reported.digits[reported.used], 0);
    assert!(!reported.digits.chunks(DIGITS).any(|hash| hash == &first[..DIGITS]));
}
