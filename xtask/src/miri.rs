//! `cargo xtask miri`: the tests of maps, guards, cells, futures and boxes that Miri supports.
//!
//! Miri supports neither assembly nor all system calls. So the tests are built for another
//! architecture, which has the portable engine and no assembly, and each runs in a process of its
//! own. A test that needs an unsupported operation is reported as such. Any other failure counts,
//! undefined behaviour above all.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

/// An architecture for which we have no assembly on these paths.
const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Miri's message for an operation that it does not support.
const UNSUPPORTED: &str = "unsupported operation";

/// Packages, a selection of their test programs, and tests.
const TESTS: &[(&str, &str, &[&str])] = &[
    ("sheaves-rcu", "--lib", &["owner", "word"]),
    ("sheaves-rcu", "--test=cells", &[""]),
    ("sheaves-rcu", "--test=sections", &["sections_nest", "waiting_inside", "futures"]),
    ("sheaves", "--test=map", &["sequential", "drops", "iteration"]),
    ("sheaves", "--test=deferred", &[""]),
];

/// Runs them; prints one line where Miri is not installed.
pub fn run(root: &Path) -> anyhow::Result<()> {
    if let Some(why) = missing(root) {
        println!("miri: not run: {why}");
        return Ok(());
    }
    let (mut passed, mut failed) = (0, Vec::new());
    for (package, program, filters) in TESTS {
        for filter in *filters {
            let name = format!("{package} {program} {filter}");
            let output = miri(root)
                .args(["test", "--target", TARGET, "-p", package, program, "--", filter])
                .output()
                .context("cannot run cargo")?;
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            match verdict(output.status.success(), &text) {
                Verdict::Passed => {
                    passed += 1;
                    println!("miri: {name}: passed");
                }
                Verdict::Unsupported(why) => println!("miri: {name}: not run: {why}"),
                Verdict::Failed => {
                    println!("miri: {name}: FAILED\n{text}");
                    failed.push(name);
                }
            }
        }
    }
    if !failed.is_empty() {
        bail!("miri: {passed} passed, failed: {}", failed.join(", "));
    }
    println!("miri: {passed} passed, 0 failed");
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict<'text> {
    Passed,
    Unsupported(&'text str),
    Failed,
}

fn verdict(is_success: bool, text: &str) -> Verdict<'_> {
    if is_success {
        return Verdict::Passed;
    }
    let why = text.lines().find(|line| line.contains(UNSUPPORTED));
    let is_bad = text.contains("Undefined Behavior") || text.contains("panicked at");
    match why {
        Some(why) if !is_bad => Verdict::Unsupported(why.trim()),
        _ => Verdict::Failed,
    }
}

/// The reason why Miri cannot run, if there is one.
fn missing(root: &Path) -> Option<&'static str> {
    let is_there =
        |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let has_miri = is_there(miri(root).arg("--version"));
    (!has_miri).then_some("install it by `rustup +nightly component add miri rust-src`")
}

/// `cargo +nightly miri`, by rustup's `cargo`, since ours belongs to one toolchain.
fn miri(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["+nightly", "miri"]);
    // Variables of the toolchain that runs us.
    for variable in ["RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"] {
        command.env_remove(variable);
    }
    command.env("CARGO_TARGET_DIR", root.join("target/miri"));
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-permissive-provenance");
    command.envs([("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "4")]);
    command
}

#[cfg(test)]
#[path = "../tests/unit/miri.rs"]
mod tests;
