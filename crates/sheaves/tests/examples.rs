//! The examples, run to their end: each checks its own result.
//!
//! `cargo test` builds them with this program, unless only this program is requested.

use std::path::PathBuf;
use std::process::Command;

/// The folder of the examples: `.../target/PROFILE/examples`, beside `deps`.
fn folder() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(2).unwrap().join("examples")
}

/// Builds the examples if they are missing.
fn build() {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "-q", "-p", "sheaves", "--examples"]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    assert!(command.status().unwrap().success(), "the examples cannot be built");
}

fn run(name: &str, says: &str) {
    if !folder().join(name).exists() {
        build();
    }
    let configurations: [&[(&str, &str)]; 3] = [
        &[],
        &[("SHEAVES_RCU_FENCES", "1")],
        &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")],
    ];
    for variables in configurations {
        let path = folder().join(name);
        let output = Command::new(&path).envs(variables.iter().copied()).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} {variables:?}: {}\n{errors}", output.status);
        assert!(text.contains(says), "{name} {variables:?}: {text}");
    }
}

#[test]
fn configuration() {
    run("configuration", "every read was of one configuration");
}

#[test]
fn routes() {
    run("routes", "no look-up missed a route");
}

#[test]
fn across_await() {
    run("across_await", "ended on another thread");
}
