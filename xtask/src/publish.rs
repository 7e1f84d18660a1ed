//! `cargo xtask package` and `cargo xtask semver`: what a release to a registry needs.
//!
//! Published are the crates whose manifest does not refuse it: the libraries. The command
//! `sheaves` and its preload object come as packages of distributions ([`crate::dist`]).

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, ensure};

use crate::repo;

/// `sheaves`, and what it re-exports: the tool does not look into other crates.
const INTERFACES: [&str; 5] =
    ["sheaves", "sheaves-heap", "sheaves-percpu", "sheaves-rcu", "sheaves-slab"];

/// Packages every published crate, and builds each from its package alone.
pub fn package(root: &Path) -> anyhow::Result<()> {
    let names = published(root)?;
    // A new folder each time: cargo keeps what it has unpacked from a folder of packages, and would
    // build that again instead of new packages of the same version.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let folder = root.join("target/package").join(now.as_nanos().to_string());
    let mut cargo = repo::cargo(root);
    // What is not committed yet is packaged, too: this is a check, not the release.
    cargo.args(["package", "--quiet", "--allow-dirty", "--target-dir"]).arg(&folder);
    let done = run(cargo.args(of(&names)));
    std::fs::remove_dir_all(&folder).context("the folder of packages")?;
    done?;
    println!("package: {} crates can be published: {}", names.len(), names.join(", "));
    Ok(())
}

/// Compares the public interface with that of a release, by cargo-semver-checks.
pub fn semver(root: &Path, baseline: Option<String>) -> anyhow::Result<()> {
    let baseline = match baseline {
        Some(revision) => revision,
        None => last_release(root)?,
    };
    let tool = repo::cargo(root).args(["semver-checks", "--version"]).output();
    ensure!(
        tool.is_ok_and(|output| output.status.success()),
        "cargo-semver-checks is missing: run `cargo install --locked cargo-semver-checks`"
    );
    let names = INTERFACES.map(str::to_owned);
    run(repo::cargo(root).args(["semver-checks", "--baseline-rev", &baseline]).args(of(&names)))
}

fn of(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().flat_map(|name| ["-p", name])
}

fn published(root: &Path) -> anyhow::Result<Vec<String>> {
    let packages = repo::packages(root).context("the crates of the workspace")?;
    let published = packages.into_iter().filter(repo::Package::is_published);
    Ok(published.map(|package| package.name).collect())
}

/// The tag of the last release.
fn last_release(root: &Path) -> anyhow::Result<String> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["describe", "--tags", "--abbrev=0", "--match", "v*"]);
    let tag = repo::output_of(&mut git)
        .context("no release has a tag `v...` yet: name a commit by --baseline REVISION")?;
    Ok(tag.trim().to_owned())
}

/// Runs a command with our output.
fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().context("cannot run cargo")?;
    ensure!(status.success(), "cargo ended with {status}");
    Ok(())
}
