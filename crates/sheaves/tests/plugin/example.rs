//! Builds examples of this crate from the source of this test.

use std::path::PathBuf;
use std::process::Command;

/// Builds examples with the profile of this test; returns their folder.
pub(crate) fn build(names: &[&str]) -> PathBuf {
    // This program is TARGET/PROFILE/deps/NAME-*.
    let program = std::env::current_exe().unwrap();
    let folder = program.ancestors().nth(2).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    // With the features of the whole workspace, as `cargo test --workspace` has built them.
    cargo.args(["build", "-q", "--workspace", "--target-dir"]).arg(folder.parent().unwrap());
    cargo.args(names.iter().flat_map(|name| ["--example", name]));
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success(), "{cargo:?}");
    folder.join("examples")
}
