//! Proof that each rule of `cargo xtask tidy` can fail: a snippet that breaks it, and the finding.
//!
//! Each broken snippet is followed by one that keeps the rule, so that a rule cannot pass by
//! reporting everything.

mod circles;
mod commits;
mod documents;
mod layers;
mod machine;
mod options;
mod orderings;
mod shape;
mod sizes;
mod text;
mod twins;
mod words;

use xtask::finding::{Finding, Kind};
use xtask::repo::TextFile;

/// Source of a library crate, to which the strict rules apply.
const LIBRARY: &str = "crates/sheaves-slab/src/depot.rs";
/// Source of a tool, which may enter the kernel.
const TOOL: &str = "crates/sheaves-bench/src/table.rs";

fn file(path: &str, text: &str) -> TextFile {
    TextFile { path: path.into(), text: text.into() }
}

/// The findings in one file, as line and kind.
fn findings_in(path: &str, text: &str) -> Vec<(usize, Kind)> {
    let findings = xtask::tidy::check_files(&[file(path, text)]);
    findings.into_iter().map(|Finding { line, kind, .. }| (line, kind)).collect()
}

#[track_caller]
fn assert_finds(path: &str, text: &str, expected: &[(usize, Kind)]) {
    assert_eq!(findings_in(path, text), expected, "in {path}:\n{text}");
}

#[track_caller]
fn assert_clean(path: &str, text: &str) {
    assert_finds(path, text, &[]);
}

/// Lines of code, no two alike, and each in one file of a test only.
fn steps(name: &str, range: core::ops::Range<usize>) -> String {
    range.map(|n| format!("    {name}({n},  2);\n")).collect()
}

#[test]
fn message_is_a_link_with_advice() {
    let finding = Finding { file: "a/b.rs".into(), line: 7, kind: Kind::Tab };
    let message = "a/b.rs:7: tab in Rust code: indent with spaces, write \\t in strings";
    assert_eq!(finding.to_string(), message);
}
