//! Tests of private items of `options`.

extern crate std;

use std::collections::BTreeSet;

use super::*;

/// Option, text, value.
type Case = (&'static Opt, &'static str, Option<u64>);

fn check(cases: &[Case]) {
    for (option, text, value) in cases {
        assert_eq!(option.parse(text.as_bytes()), *value, "{}={text}", option.name());
    }
}

#[test]
fn numbers_words_and_fractions() {
    check(&[
        (&SLOTS, "1", Some(1)),
        (&SLOTS, "8192", Some(8192)),
        (&SLOTS, "8193", None),
        (&SLOTS, "0", None),
        (&SLOTS, "-1", None),
        (&SLOTS, "two", None),
        (&DECAY_MS, "0", Some(0)),
        (&DECAY_MS, "-1", Some(NEVER)),
        (&DECAY_MS, "-2", None),
        (&DECAY_MS, "3600001", None),
        (&GUARD, "0", Some(0)),
        (&GUARD, "1/16", Some(16)),
        (&GUARD, "1/0", None),
        (&GUARD, "1/1048577", None),
        (&GUARD, "16", None),
        (&ENGINE, "rseq-cpu", Some(2)),
        (&ENGINE, "portable", Some(3)),
        (&ENGINE, "Portable", None),
        (&STATS, "text", Some(1)),
        (&HARDEN, "yes", Some(1)),
        (&HARDEN, "off", Some(0)),
        (&HARDEN, "2", Some(2)),
        (&HARDEN, "3", None),
    ]);
}

#[test]
fn limits_are_bytes_percentages_or_auto() {
    check(&[
        (&LIMIT, "auto", Some(0)),
        (&LIMIT, "1048576", Some(1 << 20)),
        (&LIMIT, "256M", Some(256 << 20)),
        (&LIMIT, "3G", Some(3 << 30)),
        (&LIMIT, "1T", Some(1 << 40)),
        (&LIMIT, "50%", Some(50)),
        (&LIMIT, "0%", None),
        (&LIMIT, "101%", None),
        (&LIMIT, "1023K", None),
        (&LIMIT, "17179869184G", None),
        (&LIMIT, "256m", None),
    ]);
}

#[test]
fn no_option_is_set_by_an_empty_value() {
    assert!(TABLE.iter().all(|option| option.parse(b"").is_none()));
}

#[test]
fn a_path_has_to_fit() {
    let path = [b'x'; 4096];
    assert_eq!(STATS_FILE.parse(&path[..4095]), Some(4095));
    assert_eq!(STATS_FILE.parse(&path), None);
}

#[test]
fn a_path_may_have_the_number_of_the_process() {
    let of = |text: &[u8]| {
        let mut path = [7; 4096];
        let is_written = super::opt::expand(text, &mut path);
        let path = || core::ffi::CStr::from_bytes_until_nul(&path).unwrap();
        is_written.then(|| std::ffi::CString::from(path()))
    };
    let number = std::process::id();
    let expected = std::ffi::CString::new(std::format!("/tmp/%q{number}.{number}%")).unwrap();
    assert_eq!(of(b"/tmp/%q%p.%p%"), Some(expected));
    assert!(of(&[b'x'; 4095]).is_some() && of(&[b'x'; 4096]).is_none());
}

#[test]
fn names_differ_and_begin_alike() {
    let names: BTreeSet<_> = TABLE.iter().map(|option| option.name()).collect();
    assert_eq!(names.len(), TABLE.len());
    assert!(names.iter().all(|name| name.starts_with("SHEAVES_")));
}

#[test]
fn defaults_are_words_of_their_options() {
    // The options are read when this program is loaded.
    if TABLE.iter().any(|option| std::env::var_os(option.name()).is_some()) {
        return;
    }
    let words = [ENGINE.word(), HUGE_PAGES.word(), RCU_RECLAIMERS.word(), CONTROL.word()];
    assert_eq!(words, ["auto", "auto", "1", "1"]);
    assert_eq!((RCU.word(), LIMIT.limit(), STATS_FILE.path()), ("", None, None));
}
