//! C and C++ programs that tests compile and run, and the libraries that these run on. Also used by
//! the tests of the C API.

use core::time::Duration;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// Builds a package as this test was built; the folder in which its libraries are then.
pub(crate) fn build(package: &str) -> PathBuf {
    // This program is TARGET/PROFILE/deps/NAME-*.
    let program = std::env::current_exe().unwrap();
    let directory = program.ancestors().nth(2).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", package, "--target-dir"]);
    cargo.arg(directory.parent().unwrap());
    if directory.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success(), "{package} builds");
    directory.to_owned()
}

/// Runs a compiler; panics with what it says when it fails.
pub(crate) fn compile_with(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{errors}");
}

/// Runs a program. Panics when it takes longer than `limit`.
pub(crate) fn run_within(limit: Duration, command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > limit {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            panic!("{command:?} hangs: {output:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Fails unless a program has ended with success and what it said is as wanted.
pub(crate) fn check(command: &Command, output: &Output, is_right: impl Fn(&str, &str) -> bool) {
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let status = output.status;
    let is_ok = status.success() && is_right(&text, &errors);
    assert!(is_ok, "{command:?}: {status}\n{text}\n{errors}");
}
