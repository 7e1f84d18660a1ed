//! Runs the models of a crate if `SHEAVES_MODELS=1` is set: for the tests of this layer and of the
//! one above.
//!
//! They need their own build, with loom's atomics.

use std::path::Path;
use std::process::Command;

/// Runs all models of `package`, which are in the targets of `select`. At least `hold_min` of them
/// have to hold, and at least `caught_min` broken variants have to be caught.
pub(crate) fn run(package: &str, select: &[&str], hold_min: usize, caught_min: usize) {
    if std::env::var("SHEAVES_MODELS").is_ok_and(|value| value == "1") {
        check(package, select, hold_min, caught_min);
    } else {
        println!("SHEAVES_MODELS=1 is not set: the models were not run");
    }
}

fn check(package: &str, select: &[&str], hold_min: usize, caught_min: usize) {
    // Beside this program: .../target/PROFILE/deps/models-*.
    let program = std::env::current_exe().unwrap();
    let target = program.ancestors().nth(3).unwrap().join("loom");
    let output = Command::new(env!("CARGO"))
        .args(["test", "-p", package, "--release"])
        .args(select)
        // One at a time: each maps and unmaps stacks all the time, for which threads wait in turn.
        .args(["model", "--", "--test-threads=1"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .env("CARGO_TARGET_DIR", target)
        .env("RUSTFLAGS", "--cfg loom")
        // To optimise the whole program takes longer than to run it.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let passed = text.lines().filter(|line| line.ends_with("... ok")).count();
    let caught = text.lines().filter(|line| line.ends_with("should panic ... ok")).count();
    // A filter that matches no model would pass as well.
    let enough = passed - caught >= hold_min && caught >= caught_min;
    assert!(enough, "too few models ran:\n{text}");
}
