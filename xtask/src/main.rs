//! `cargo xtask`: the command line of the house tools.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{ci, disasm, header, repo, tidy, urcu_examples};

/// Checks and chores of the Sheaves repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Check the rules of the house and print every finding as `file:line: what: what to do`.
    Tidy,
    /// Write docs/fast-paths.md: the disassembly of the fast paths with instruction counts.
    Disasm {
        /// Write nothing; fail if the counts in the committed page are stale.
        #[arg(long)]
        check: bool,
        /// Disassemble this executable instead of building the example.
        #[arg(long, value_name = "FILE")]
        executable: Option<std::path::PathBuf>,
    },
    /// Write the C headers that are made: of the Rust source, and of a template.
    Header {
        /// Write nothing; fail if the committed header is stale.
        #[arg(long)]
        check: bool,
    },
    /// Build the examples of liburcu against our headers, and compare what they print.
    UrcuExamples {
        /// For how long the hash table is worked on, in milliseconds.
        #[arg(long, default_value_t = 10_000)]
        table_ms: u32,
    },
    /// Run every check that a change must pass, in order; stop at the first failure.
    Ci,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.chore {
        Chore::Tidy => run_tidy(),
        Chore::Disasm { check, executable } => disasm::run(repo::root(), check, executable),
        Chore::Header { check } => header::run(repo::root(), check),
        Chore::UrcuExamples { table_ms } => urcu_examples::run(repo::root(), table_ms),
        Chore::Ci => ci::run(repo::root()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_tidy() -> anyhow::Result<()> {
    let findings = tidy::run(repo::root())?;
    for finding in &findings {
        println!("{finding}");
    }
    anyhow::ensure!(findings.is_empty(), "tidy: {} findings", findings.len());
    println!("tidy: no findings");
    Ok(())
}
