//! The command together with the preload object of this workspace, as users install them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::{contains, is_match};

use crate::stand_in::sheaves;

/// Builds the object beside the command, where `sheaves run` looks for it.
pub(crate) fn object() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("sheaves-preload", "libsheaves_preload.so"))
}

/// Builds the library for programs in C.
pub(crate) fn library() -> PathBuf {
    built("sheaves-capi", "libsheaves.so")
}

/// Builds a file of a package beside the command.
fn built(package: &str, name: &str) -> PathBuf {
    let command = assert_cmd::cargo::cargo_bin("sheaves");
    let directory = command.parent().expect("a folder");
    let target = directory.parent().expect("the target folder");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "-p", package, "--target-dir"]).arg(target);
    if directory.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo runs").success(), "{package} builds");
    directory.join(name)
}

/// The command without a variable that names the object.
pub(crate) fn sheaves_as_installed() -> assert_cmd::Command {
    assert!(object().is_file());
    let mut command = sheaves();
    command.env_remove("SHEAVES_PRELOAD");
    command
}

#[test]
fn object_is_found_beside_the_command_and_takes_effect() {
    let greeting = r"^sheaves: sh runs on Sheaves \S+ \(engine (rseq|portable), .*\)\n$";
    sheaves_as_installed()
        .args(["run", "-v", "--", "sh", "-c", "exit 3"])
        .assert()
        .code(3)
        .stderr(is_match(greeting).expect("a pattern"));
}

#[test]
fn statistics_are_those_of_the_program() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("stats.json");
    sheaves_as_installed()
        .args(["run", "--stats=json", "--stats-file"])
        .arg(&path)
        .args(["--", "ls", "/"])
        .assert()
        .success()
        .stderr("");
    let text = std::fs::read_to_string(&path).expect("written");
    let report: serde_json::Value = serde_json::from_str(&text).expect("one JSON object");
    let caches = report["caches"].as_array().expect("an array");
    assert!(caches.iter().any(|cache| cache["refills"].as_u64() > Some(0)), "{text}");
}

#[test]
fn doctor_finds_no_failure() {
    sheaves_as_installed()
        .arg("doctor")
        .assert()
        .success()
        .stdout(contains("OK    preload").and(contains("engine")));
}

#[test]
fn portable_engine_is_reported() {
    sheaves_as_installed()
        .env("SHEAVES_ENGINE", "portable")
        .arg("doctor")
        .assert()
        .success()
        .stdout(contains("portable").and(contains("SHEAVES_ENGINE selects it")));
}
