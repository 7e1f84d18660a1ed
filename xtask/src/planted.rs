//! `cargo xtask planted`: what hardened allocators do about errors of memory, as a table in
//! SECURITY.md.
//!
//! The test `planted` runs its programs on allocators that it is given; here these are built.

use std::path::Path;

use anyhow::Context as _;

use crate::benchmarks::replace;
use crate::{programs, repo};

/// The test's list of allocators: `NAME=OBJECT`, separated by semicolons.
const PEERS: &str = "SHEAVES_TEST_PLANTED_PEERS";

/// Runs the programs on all allocators, and writes the table.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let folder = root.join("target/planted");
    std::fs::create_dir_all(&folder).context("target/planted")?;
    let peers = programs::hardened(root, &folder)?;
    let peers: Vec<_> =
        peers.iter().map(|(name, object)| format!("{name}={}", object.display())).collect();
    let mut test = repo::cargo(root);
    test.args(["test", "--quiet", "-p", "sheaves-preload", "--test", "planted", "--"]);
    test.args(["--ignored", "--nocapture", "--exact", "allocators_beside_each_other"]);
    let printed = repo::output_of(test.env(PEERS, peers.join(";")))?;
    let table: String = printed
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| format!("{line}\n"))
        .collect();
    anyhow::ensure!(!table.is_empty(), "the test printed no table: {printed}");
    print!("{table}");
    replace(&root.join("SECURITY.md"), &table, false)
}
