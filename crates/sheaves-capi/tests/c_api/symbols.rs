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

/// A program that loads the library by `dlopen` has little room for them.
#[test]
#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
fn thread_local_words_are_few() {
    let symbols = output_of("readelf", &["-W", "--dyn-syms"]);
    let line = symbols.lines().find(|line| line.ends_with(" sheaves_thread_v0")).unwrap();
    let bytes: usize = line.split_whitespace().nth(2).unwrap().parse().unwrap();
    assert!(bytes <= 64, "{line}");
    if libraries().ends_with("release") {
        // Nothing else: panics abort, so the standard library is not linked.
        let headers = output_of("readelf", &["-lW"]);
        let line = headers.lines().find(|line| line.trim_start().starts_with("TLS ")).unwrap();
        let all = usize::from_str_radix(&line.split_whitespace().nth(5).unwrap()[2..], 16);
        assert_eq!(all, Ok(bytes), "{line}");
    }
}

#[test]
fn object_has_a_soname_and_is_never_unloaded() {
    let dynamic = output_of("readelf", &["-d"]);
    for wanted in ["[libsheaves.so.0]", "NODELETE", "STATIC_TLS"] {
        assert!(dynamic.contains(wanted), "{wanted}: {dynamic}");
    }
}
