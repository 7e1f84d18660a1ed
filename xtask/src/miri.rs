//! `cargo xtask miri`: tests of maps, guards, cells, futures and boxes in Miri.
//!
//! Under `cfg(miri)` the library has no assembly, runs the portable engine, makes only system calls
//! that Miri knows, and takes blocks from Miri's heap. `--native` runs the tests of that code, and
//! two longer ones, without Miri, on any toolchain: the code works, but undefined behaviour is not
//! found.

use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context as _, ensure};

type Tests = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

/// Packages, a test program of each, which of its tests, and which of these not: they fork, start
/// programs, ask for sizes of blocks, need many keys, or wait for the library's thread, which Miri
/// has not.
const TESTS: &[Tests] = &[
    ("sheaves-rcu", "cells", &[], &[]),
    (
        "sheaves-rcu",
        "sections",
        &["sections_nest", "waiting_inside", "future"],
        &["child", "where", "is_not_waited_for", "came_later"],
    ),
    ("sheaves", "map", &["sequential::"], &[]),
    (
        "sheaves",
        "map",
        &["drops::", "iteration::", "conditional::"],
        &["idle", "grace_periods", "every_stage"],
    ),
    ("sheaves", "map", &["words::"], &[]),
    ("sheaves", "deferred", &[], &["configuration", "take_no_more"]),
];

/// These take Miri minutes each.
const LONG_IN_MIRI: &str = "during_resizes";

/// Runs them side by side, in Miri unless `is_native`. Fails if a program runs no test.
pub fn run(root: &Path, is_native: bool) -> anyhow::Result<()> {
    ensure!(
        is_native || is_installed(root),
        "miri is not installed: `rustup +nightly component add miri rust-src`, or `--native`"
    );
    let output_of = |(package, program, filters, skipped): &Tests| {
        let mut command = if is_native { native(root) } else { miri(root) };
        command.args(["test", "-p", package, "--test", program, "--"]).args(*filters);
        let long = (!is_native).then_some(&LONG_IN_MIRI);
        command.args(skipped.iter().chain(long).flat_map(|name| ["--skip", name])).output()
    };
    let outputs: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = TESTS.iter().map(|tests| scope.spawn(|| output_of(tests))).collect();
        running.into_iter().map(|thread| thread.join().expect("the thread ends")).collect()
    });
    let mut passed = 0;
    for ((package, program, ..), output) in TESTS.iter().zip(outputs) {
        let output = output.context("cannot run cargo")?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let count = passed_in(&text);
        ensure!(output.status.success() && count > 0, "{package} {program} failed:\n{text}");
        println!("miri: {package} {program}: {count} passed");
        passed += count;
    }
    println!("miri: {passed} passed, 0 failed");
    Ok(())
}

/// The number of tests that have passed, by the last lines of test programs.
fn passed_in(text: &str) -> u32 {
    let results = text.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    results.filter_map(|counts| counts.split_once(" passed")?.0.parse::<u32>().ok()).sum()
}

/// True if Miri can run.
pub(crate) fn is_installed(root: &Path) -> bool {
    miri(root).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// `cargo +nightly miri`, by rustup's `cargo`, since ours belongs to one toolchain.
fn miri(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(["+nightly", "miri"]);
    // Variables of the toolchain that runs us.
    for variable in ["RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"] {
        command.env_remove(variable);
    }
    // Addresses in sheaves are numbers. What is deferred when the process ends is not freed.
    let flags = "-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-ignore-leaks";
    command.envs([("MIRIFLAGS", flags), ("SHEAVES_TEST_SMALL", "1")]);
    command.env("CARGO_TARGET_DIR", root.join("target/miri"));
    command
}

/// Our `cargo`, with the condition under which Miri compiles. Few steps are run: to optimise them
/// would take longer.
fn native(root: &Path) -> Command {
    let mut command = crate::repo::cargo(root);
    command.env("RUSTFLAGS", "--cfg miri").env("CARGO_TARGET_DIR", root.join("target/cfg-miri"));
    command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
    command
}

#[cfg(test)]
#[path = "../tests/unit/miri.rs"]
mod tests;
