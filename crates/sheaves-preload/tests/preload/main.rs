//! The preload object from outside: its symbols, and C and C++ programs that run on it.
//!
//! The programs are compiled here and print nothing when all is well. Each runs in several
//! configurations. `SHEAVES_FORKS` says how often the program that forks does so (default 500).

mod programs;
mod symbols;

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

/// The object of this workspace, built into the folder in which this test was built.
fn object() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        // This program is TARGET/PROFILE/deps/preload-*.
        let program = std::env::current_exe().unwrap();
        let directory = program.ancestors().nth(2).unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "-p", "sheaves-preload", "--target-dir"]);
        cargo.arg(directory.parent().unwrap());
        if directory.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success(), "the preload object builds");
        directory.join("libsheaves_preload.so")
    })
}

/// Compiles a program whose source stands beside this file.
fn compile(compiler: &str, source: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.replace('.', "-"));
    let output = Command::new(compiler)
        .args(["-O1", "-g", "-Wall", "-Werror", "-fno-builtin", "-pthread", "-o"])
        .arg(&program)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload").join(source))
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    program
}

/// Runs a program on the object. Panics when it takes longer than `limit`.
fn run(program: &Path, args: &[&str], variables: &[(&str, &str)], limit: Duration) -> Output {
    let mut child = Command::new(program)
        .args(args)
        .env("LD_PRELOAD", object())
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > limit {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            panic!("{program:?} {args:?} {variables:?} hangs: {output:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Runs a program that prints nothing when all is well.
fn run_silent(program: &Path, args: &[&str], variables: &[(&str, &str)], limit: Duration) {
    let output = run(program, args, variables, limit);
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let status = output.status;
    assert!(status.success(), "{program:?} {args:?} {variables:?}: {status}\n{text}\n{errors}");
    assert_eq!((&*text, &*errors), ("", ""), "{program:?} {args:?} {variables:?}");
}
