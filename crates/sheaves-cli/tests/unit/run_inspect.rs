//! Tests of `src/run/inspect.rs`.

use super::*;

#[test]
fn interpreter_is_the_first_word_after_the_marker() {
    let path = |text: &str| interpreter(text.as_bytes());
    assert_eq!(path("#! /usr/bin/env  python3\nx"), Some(PathBuf::from("/usr/bin/env")));
    assert_eq!(path("#!/bin/sh"), Some(PathBuf::from("/bin/sh")));
    assert_eq!(path("#!\n/bin/sh"), None);
    assert_eq!(path("echo"), None);
}

#[test]
fn endless_chain_of_scripts_ends() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("loop");
    std::fs::write(&script, format!("#!{}\n", script.display())).expect("written");
    let refusal = inspect(&script, &crate::preload::tests::object()).expect_err("endless");
    assert!(refusal.line.ends_with("too many levels of script interpreters"), "{refusal:?}");
}
