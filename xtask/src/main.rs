//! `cargo xtask`: the command line of the project's tools.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::arch::Arch;
use xtask::{
    benchmarks, ci, consumers, disasm, dist, header, install, miri, musl, planted, programs,
    publish, repo, tidy, urcu_cost, urcu_examples, vm,
};

/// Checks and commands of the Sheaves repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Debug, Subcommand)]
enum Chore {
    /// Check the project's rules and print every finding as `file:line: what: what to do`.
    Tidy {
        /// Check nothing; list the code that occurs twice in the library crates.
        #[arg(long)]
        twins: bool,
    },
    /// Write docs/fast-paths.md: the disassembly of the fast paths with instruction counts.
    Disasm {
        /// Write nothing; fail if the counts in the committed page are stale.
        #[arg(long)]
        check: bool,
        /// Disassemble this executable instead of building the example.
        #[arg(long, value_name = "FILE")]
        executable: Option<std::path::PathBuf>,
    },
    /// Generate the C headers, manual pages and tables of documents from the source.
    Header {
        /// Write nothing; fail if a committed file is stale.
        #[arg(long)]
        check: bool,
    },
    /// Build the examples of liburcu against our headers, and compare their output.
    UrcuExamples {
        /// How long to test the hash table, in milliseconds.
        #[arg(long, default_value_t = 10_000)]
        table_ms: u32,
    },
    /// Measure a read section and `call_rcu` in C, with Sheaves and with liburcu.
    UrcuCost,
    /// Run tests of maps, guards, cells, futures and boxes in Miri.
    Miri {
        /// Without Miri, the code that it would run: finds no undefined behaviour.
        #[arg(long)]
        native: bool,
    },
    /// Build static programs of musl, in Rust and in C, and run them.
    Musl,
    /// Install cargo-c into target/tools for the commands below: two minutes.
    Tools,
    /// Install the library, its headers, the command, manual pages and completion scripts.
    Install {
        /// The prefix at run time.
        #[arg(long, default_value = "/usr/local")]
        prefix: std::path::PathBuf,
        /// Folder of libraries below the prefix.
        #[arg(long, default_value = "lib")]
        libdir: std::path::PathBuf,
        /// Prepended to the prefix while installing, for packages.
        #[arg(long)]
        destdir: Option<std::path::PathBuf>,
    },
    /// Install the library to a prefix of its own, then build and run projects that use it.
    Consumers,
    /// Make packages for Debian, in target/dist.
    Dist {
        /// Install them on a clean system and use them there; needs root and debootstrap.
        #[arg(long)]
        check: bool,
        /// Make them for this architecture, arm64 or amd64, in a folder of its own.
        #[arg(long, value_enum)]
        arch: Option<Arch>,
    },
    /// Run real programs on Sheaves and on other allocators, in turns; needs root for apt.
    Programs {
        /// Three rounds of short loads.
        #[arg(long)]
        quick: bool,
        /// This number of rounds, and as many again of a noisy program.
        #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
        rounds: Option<u16>,
        /// Write all samples to this file.
        #[arg(long, value_name = "FILE")]
        json: Option<std::path::PathBuf>,
        /// Write a page with plots to this file.
        #[arg(long, value_name = "FILE")]
        html: Option<std::path::PathBuf>,
        /// Allocators beside glibc, with commas between them; all without this.
        #[arg(long, value_delimiter = ',')]
        allocators: Vec<String>,
        /// Names of programs; all without this.
        programs: Vec<String>,
    },
    /// Make the figures of documents from docs/benchmarks/MACHINE/TABLE.json.
    Benchmarks {
        /// Write nothing; fail if the documents are stale.
        #[arg(long)]
        check: bool,
        /// Measure first, and store the reports under this name; on an idle machine 17 minutes.
        #[arg(long, value_name = "MACHINE")]
        measure: Option<String>,
    },
    /// Run a command for `programs` and write down what it used.
    #[command(hide = true)]
    Measured {
        times: u32,
        preload: std::path::PathBuf,
        report: std::path::PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Plant errors of memory in programs on hardened allocators, for the table in SECURITY.md.
    Planted,
    /// Package the crates that are published, and build each from its package.
    Package,
    /// Compare the public interface with that of a release, by cargo-semver-checks.
    Semver {
        /// The commit or tag to compare with, instead of the last tag `v...`.
        #[arg(long, value_name = "REVISION")]
        baseline: Option<String>,
    },
    /// Run tests and programs on a kernel of Debian's in qemu.
    Vm(vm::Options),
    /// Run every check that a change must pass, or those of these names; stop at the first failure.
    Ci {
        /// Names of checks, or of two groups of them, `lints` or `tests`; all if none is given.
        steps: Vec<String>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.chore {
        Chore::Tidy { twins } => run_tidy(twins),
        Chore::Disasm { check, executable } => disasm::run(repo::root(), check, executable),
        Chore::Header { check } => header::run(repo::root(), check),
        Chore::UrcuExamples { table_ms } => urcu_examples::run(repo::root(), table_ms),
        Chore::UrcuCost => urcu_cost::run(repo::root()),
        Chore::Miri { native } => miri::run(repo::root(), native),
        Chore::Musl => musl::run(repo::root()),
        Chore::Tools => install::tools(repo::root()),
        Chore::Install { prefix, libdir, destdir } => {
            let place = install::Place { prefix, libdir, destdir, other: None, is_trial: false };
            install::run(repo::root(), &place)
        }
        Chore::Consumers => consumers::run(repo::root()),
        Chore::Dist { check, arch } => dist::run(repo::root(), arch, check),
        Chore::Programs { quick, rounds, json, html, allocators, programs } => {
            let options = programs::Options { quick, rounds, json, html, allocators, programs };
            programs::run(repo::root(), &options)
        }
        Chore::Benchmarks { check, measure } => {
            benchmarks::run(repo::root(), check, measure.as_deref())
        }
        Chore::Measured { times, preload, report, words } => {
            programs::measured(times, &preload, &report, &words)
        }
        Chore::Planted => planted::run(repo::root()),
        Chore::Package => publish::package(repo::root()),
        Chore::Semver { baseline } => publish::semver(repo::root(), baseline),
        Chore::Vm(options) => return exit(vm::run(repo::root(), &options)),
        Chore::Ci { steps } => ci::run(repo::root(), &steps),
    };
    exit(done.map(|()| ExitCode::SUCCESS))
}

fn exit(done: anyhow::Result<ExitCode>) -> ExitCode {
    match done {
        Ok(status) => status,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run_tidy(twins: bool) -> anyhow::Result<()> {
    if twins {
        for twin in tidy::twins(repo::root())? {
            println!("{twin}");
        }
        return Ok(());
    }
    let findings = tidy::run(repo::root())?;
    for finding in &findings {
        println!("{finding}");
    }
    anyhow::ensure!(findings.is_empty(), "tidy: {} findings", findings.len());
    println!("tidy: no findings");
    Ok(())
}
