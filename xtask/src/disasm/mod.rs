//! `cargo xtask disasm`: writes the page about the fast paths, or checks that its counts are
//! current.
//!
//! The example `EXAMPLE` wraps each fast path in a function of its own with a fixed symbol. It is
//! built in release, disassembled with `objdump`, and the functions are cut out. Their hot paths
//! are counted by [`hot_path`], and [`page`] writes the Markdown.

pub mod fast_path;
pub mod hot_path;
pub mod listing;
pub mod page;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

use crate::repo;
use fast_path::{FAST_PATHS, FastPath};
use listing::Function;

/// The page, relative to the root.
pub const PAGE: &str = "docs/fast-paths.md";
/// Crate and name of the example that wraps the fast paths.
const EXAMPLE_CRATE: &str = "sheaves-bench";
const EXAMPLE: &str = "fast_paths";

/// Builds, disassembles and writes the page; with `check` compares the counts and writes nothing.
pub fn run(root: &Path, check: bool, executable: Option<PathBuf>) -> anyhow::Result<()> {
    let executable = match executable {
        Some(executable) => executable,
        None => build_example(root)?,
    };
    let listing = disassemble(&executable)?;
    let functions = cut_out(&listing)?;
    let fresh = page::write(&functions, &toolchain()?);
    let path = root.join(PAGE);
    if !check {
        std::fs::write(&path, fresh).with_context(|| path.display().to_string())?;
        println!("disasm: wrote {PAGE}");
        return Ok(());
    }
    let committed = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let stale = page::stale_rows(&committed, &fresh);
    for row in &stale {
        println!("{PAGE}: {row}");
    }
    ensure!(stale.is_empty(), "{PAGE} is stale: run `cargo xtask disasm` and commit it");
    println!("disasm: the counts in {PAGE} are current");
    Ok(())
}

/// Builds the example and returns the path of the executable.
fn build_example(root: &Path) -> anyhow::Result<PathBuf> {
    #[derive(Deserialize)]
    struct Message {
        executable: Option<PathBuf>,
        target: Option<Target>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }
    let mut command = repo::cargo(root);
    command.args(["build", "--release", "--package", EXAMPLE_CRATE, "--example", EXAMPLE]);
    let messages = repo::output_of(command.arg("--message-format=json-render-diagnostics"))?;
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line).context("messages of cargo build")?;
        if message.target.is_some_and(|target| target.name == EXAMPLE)
            && let Some(executable) = message.executable
        {
            return Ok(executable);
        }
    }
    bail!("cargo built no executable `{EXAMPLE}`");
}

/// The whole listing of an executable, as `objdump` prints it.
fn disassemble(executable: &Path) -> anyhow::Result<String> {
    let mut command = Command::new("objdump");
    command.args(["-d", "-C", "--no-show-raw-insn", "-M", "intel"]).arg(executable);
    repo::output_of(&mut command).context("objdump is part of binutils, which comes with gcc")
}

/// The wrappers of the fast paths, in the order of [`FAST_PATHS`].
pub fn cut_out(listing: &str) -> anyhow::Result<Vec<(FastPath, Function)>> {
    FAST_PATHS
        .into_iter()
        .map(|path| {
            let function = Function::find(listing, path.symbol)
                .with_context(|| format!("the executable has no function `{}`", path.symbol))?;
            Ok((path, function))
        })
        .collect()
}

/// Compiler and target of the counts.
fn toolchain() -> anyhow::Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = repo::output_of(Command::new(rustc).arg("-vV"))?;
    let field = |name: &str| {
        version.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("unknown").trim()
    };
    Ok(format!("rustc {}, {}", field("release:"), field("host:")))
}
