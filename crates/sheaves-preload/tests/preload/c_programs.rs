//! Compiles and runs C and C++ programs for tests, and builds the libraries that they run on. Also
//! used by the tests of the C API.

use core::time::Duration;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::Instant;

/// Builds a package with the profile of this test; returns the folder of its libraries.
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

/// The preload object of this workspace, built once with the profile of this test.
pub(crate) fn object() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("sheaves-preload").join("libsheaves_preload.so"))
}

/// Runs a compiler; panics with its output when it fails.
pub(crate) fn compile_with(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}\n{errors}");
}

/// Compiles and links to `output`, which is replaced in one step: another test may be starting it.
pub(crate) fn compile_to(output: &Path, command: &mut Command) {
    let unfinished = output.with_extension(format!("{:?}", std::thread::current().id()));
    compile_with(command.arg("-o").arg(&unfinished));
    std::fs::rename(unfinished, output).unwrap();
}

/// Runs a program, and reads what it prints meanwhile: more than a pipe holds would stop it. Panics
/// when it takes longer than `limit`.
pub(crate) fn run_within(limit: Duration, command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() && begun.elapsed() <= limit {
        std::thread::sleep(Duration::from_millis(5));
    }
    let is_late = child.try_wait().unwrap().is_none();
    if is_late {
        child.kill().unwrap();
    }
    let status = child.wait().unwrap();
    let output = Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() };
    assert!(!is_late, "{command:?} hangs: {output:?}");
    output
}

/// A thread that reads a pipe to its end.
fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// Fails unless a program has succeeded and its output is as wanted.
pub(crate) fn check(command: &Command, output: &Output, is_right: impl Fn(&str, &str) -> bool) {
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let status = output.status;
    let is_ok = status.success() && is_right(&text, &errors);
    assert!(is_ok, "{command:?}: {status}\n{text}\n{errors}");
}
