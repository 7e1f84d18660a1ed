//! Guard samples in programs: errors are reported, correct programs are left alone, also those
//! whose runtimes use SIGSEGV themselves.

use core::time::Duration;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::c_programs::run_within;
use crate::{compile_as, on_object, run_silent};

const LIMIT: Duration = Duration::from_secs(180);
const ALL: [(&str, &str); 2] = [("SHEAVES_GUARD", "1/1"), ("SHEAVES_PROF", "1024")];
const PORTABLE: [(&str, &str); 4] =
    [ALL[0], ALL[1], ("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")];

fn program() -> PathBuf {
    let flags = ["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-rdynamic"];
    compile_as("gcc", "guard.c", &flags)
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/guard").join(name)
}

#[track_caller]
fn assert_in_order(output: &Output, words: &[&str]) {
    let errors = String::from_utf8_lossy(&output.stderr);
    let mut rest = &*errors;
    for wanted in words {
        let found = rest.split_once(wanted);
        rest = found.unwrap_or_else(|| panic!("{wanted:?} is not there in:\n{errors}")).1;
    }
}

#[test]
fn reports_name_the_functions() {
    let program = program();
    for variables in [&ALL[..], &PORTABLE[..]] {
        for (kind, words) in [
            ("over", &["buffer overflow: write to 0x", "spoil", "main", "make_block"][..]),
            ("under", &["buffer underflow: write to 0x", "spoil", "main", "make_block"]),
            ("after", &["use after free: write to 0x", "spoil", "make_block", "drop_block"]),
        ] {
            let output = run_within(LIMIT, &mut on_object(&program, &[kind], variables));
            assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{kind}: {output:?}");
            assert_in_order(&output, words);
        }
    }
}

#[test]
fn correct_programs_are_left_alone() {
    let program = program();
    run_silent(&program, &["correct"], &ALL, LIMIT);
    run_silent(&program, &["correct"], &PORTABLE, LIMIT);
    let usual = [("SHEAVES_GUARD", "1/1")];
    run_silent(&program, &["correct"], &usual, LIMIT);
    run_silent(
        &program,
        &["correct"],
        &[("SHEAVES_GUARD", "1/16"), ("SHEAVES_PROF", "4096")],
        LIMIT,
    );
}

/// Runs a program of a runtime, which prints `ok` and nothing else.
fn is_ok(program: &Path, arguments: &[&str]) {
    let variables = [("SHEAVES_GUARD", "1/1"), ("SHEAVES_PROF", "65536")];
    let output = run_within(LIMIT, &mut on_object(program, arguments, &variables));
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.ends_with("ok\n"), "{output:?}");
    assert!(!errors.contains("sheaves"), "{errors}");
}

fn has(program: &str, argument: &str) -> bool {
    let is_there = Command::new(program).arg(argument).output().is_ok();
    if !is_there {
        println!("skipped: {program} is not installed");
    }
    is_there
}

#[test]
fn node_uses_the_signal_itself() {
    if has("node", "--version") {
        is_ok(Path::new("node"), &[source("trap.js").to_str().unwrap()]);
    }
}

#[test]
fn java_uses_the_signal_itself() {
    if has("java", "-version") {
        is_ok(Path::new("java"), &["-Xshare:auto", source("Null.java").to_str().unwrap()]);
    }
}

#[test]
fn go_uses_the_signal_itself() {
    if !has("go", "version") {
        return;
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bug-go");
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(source("bug.go")).env("CGO_ENABLED", "1");
    let built = build.output().unwrap();
    assert!(built.status.success(), "{built:?}");
    is_ok(&program, &[]);
    // For faults in C code Go calls the handler that it has found, which is ours.
    let output = run_within(LIMIT, &mut on_object(&program, &["bug"], &ALL));
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
    assert_in_order(&output, &["sheaves: guard: use after free: read of 0x", "freed"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr).matches("guard: use after").count(), 1);
}
