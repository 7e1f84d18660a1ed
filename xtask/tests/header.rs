//! The committed C header and manual pages are those that the source generates.

use std::path::PathBuf;
use std::process::Command;

use xtask::{header, repo};

#[test]
fn committed_header_and_pages_are_not_stale() {
    header::run(repo::root(), true).unwrap();
}

fn pages() -> Vec<PathBuf> {
    let folder = repo::root().join("crates/sheaves-capi/man");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|is| is == "3")).collect()
}

#[test]
fn pages_describe_every_function() {
    let texts: String =
        pages().into_iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let symbols = repo::root().join("crates/sheaves-capi/tests/c_api/symbols.txt");
    let symbols = std::fs::read_to_string(symbols).unwrap();
    // Names for inlined readers are not for programs.
    let is_inside = |name: &&str| {
        name.starts_with("sheaves_urcu_")
            || ["sheaves_thread_v0", "sheaves_rcu_sequence"].contains(name)
    };
    for name in symbols.lines().filter(|name| !is_inside(name)) {
        assert_eq!(texts.matches(&format!(".It Fn {name}\n")).count(), 1, "{name}");
    }
}

#[test]
fn pages_have_no_mandoc_warning() {
    let mut mandoc = Command::new("mandoc");
    let Ok(output) = mandoc.args(["-Tlint", "-Wwarning"]).args(pages()).output() else {
        eprintln!("skipped: mandoc is not installed");
        return;
    };
    let warnings = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{warnings}");
}
