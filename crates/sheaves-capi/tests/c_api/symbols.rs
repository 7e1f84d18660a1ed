//! The exports and properties of the shared object.

use std::collections::BTreeSet;
use std::process::Command;

use crate::{here, libraries};

fn output_of(program: &str, args: &[&str]) -> String {
    let library = libraries().join("libsheaves.so");
    let output = Command::new(program).args(args).arg(library).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// The exported names, one per line: reviewed like code.
const SYMBOLS: &str = include_str!("symbols.txt");

#[test]
fn exports_are_the_documented_ones() {
    let listing = output_of("nm", &["-D", "--defined-only"]);
    let exported: BTreeSet<_> =
        listing.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(exported, SYMBOLS.lines().collect());
}

#[test]
fn exports_are_declared_in_the_headers() {
    let mut header = std::fs::read_to_string(here("include/sheaves.h")).unwrap();
    header += &std::fs::read_to_string(here("include/sheaves-urcu/urcu/sheaves.h")).unwrap();
    let is_in_name = |c: char| c.is_alphanumeric() || c == '_';
    let words: BTreeSet<_> = header.split(|c| !is_in_name(c)).collect();
    for symbol in SYMBOLS.lines() {
        assert!(words.contains(symbol), "{symbol} is in no header");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn object_has_the_described_probes() {
    crate::notes::check_described(&libraries().join("libsheaves.so"));
}

#[test]
fn object_has_a_soname_and_is_never_unloaded() {
    let dynamic = output_of("readelf", &["-d"]);
    for wanted in ["[libsheaves.so.0]", "NODELETE", "STATIC_TLS"] {
        assert!(dynamic.contains(wanted), "{wanted}: {dynamic}");
    }
}
