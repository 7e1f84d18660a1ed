//! The options of every subcommand; help, completions and the man page are generated from them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use clap_complete::Shell;

/// Per-CPU memory for Linux programs.
///
/// Without a subcommand: `sheaves bench --quick`.
#[derive(Debug, Parser)]
#[command(name = "sheaves", version, max_term_width = 100)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) subcommand: Option<Subcommand>,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    /// Run a program, and every program it starts, on the Sheaves malloc.
    Run(RunOptions),
    /// Report what this machine offers to Sheaves, which engine is in use, and what to improve.
    Doctor(DoctorOptions),
    /// Benchmark Sheaves against other allocators and primitives.
    Bench(sheaves_bench::cli::Args),
    /// Stress-test a subsystem and report violations.
    Torture(sheaves_torture::cli::Args),
    /// Print a completion script.
    #[command(hide = true)]
    Completions {
        /// The shell that will read the script.
        shell: Shell,
    },
    /// Print the manual pages, or write each to a file.
    #[command(hide = true)]
    Man {
        /// The folder for sheaves.1, sheaves-run.1 and so on.
        #[arg(long, value_name = "PATH")]
        directory: Option<PathBuf>,
    },
}

/// Options of `sheaves run`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: that of PROGRAM (128 + N when signal N ended it); 127 when \
                        PROGRAM is not found; 126 when it cannot run, or cannot run on Sheaves; \
                        125 when Sheaves itself failed.")]
pub(crate) struct RunOptions {
    /// Print statistics per size class to stderr when each process exits.
    #[arg(
        long,
        value_name = "FORMAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "text"
    )]
    pub(crate) stats: Option<StatsFormat>,

    /// Write the statistics to this file instead of stderr (implies --stats).
    #[arg(long, value_name = "PATH")]
    pub(crate) stats_file: Option<PathBuf>,

    /// Check frees and blocks: sets SHEAVES_HARDEN=1.
    #[arg(long)]
    pub(crate) harden: bool,

    /// The preload object (default: $SHEAVES_PRELOAD, else the one installed with this command).
    #[arg(long, value_name = "PATH")]
    pub(crate) preload: Option<PathBuf>,

    /// Print on stderr which engine the program runs on.
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_names = ["PROGRAM", "ARGUMENTS"]
    )]
    pub(crate) program: Vec<OsString>,
}

/// How statistics are printed at exit.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum StatsFormat {
    /// A table for humans.
    Text,
    /// One JSON object.
    Json,
}

/// Options of `sheaves doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Exit status: 0 when nothing failed (warnings do not count), else 1.")]
pub(crate) struct DoctorOptions {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,

    /// The preload object to examine (default: the one that `sheaves run` would use).
    #[arg(long, value_name = "PATH")]
    pub(crate) preload: Option<PathBuf>,

    /// Also report whether this program can run on Sheaves.
    #[arg(value_name = "PROGRAM")]
    pub(crate) program: Option<OsString>,
}
