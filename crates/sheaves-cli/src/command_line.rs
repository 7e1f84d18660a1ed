//! The options of every subcommand; help, completions and the man pages are generated from them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum, ValueHint};
use clap_complete::Shell;
use sheaves_slab::internal::trap::ONE_IN_MAX;

use crate::complete::{processes, programs, sources};
use crate::notes;

/// Per-CPU memory for Linux programs.
#[derive(Debug, Parser)]
#[command(name = "sheaves", version, max_term_width = 100, after_help = notes::SHEAVES)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) subcommand: Option<Subcommand>,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    /// Start a program, and every program it starts, on the Sheaves malloc.
    Run(RunOptions),
    /// Print the statistics of a running process on Sheaves.
    Stat(StatOptions),
    /// Show running processes on Sheaves, or the caches of one, again and again.
    Top(TopOptions),
    /// Print or serve the statistics of running processes as OpenMetrics, for Prometheus.
    Export(ExportOptions),
    /// Print the readers of a running process, its longest read section, and its grace periods.
    Rcu(RcuOptions),
    /// Report what this machine offers to Sheaves, which engine is in use, and what to improve.
    Doctor(DoctorOptions),
    /// Compare Sheaves with glibc's malloc, in a minute. The same as `sheaves bench --quick`.
    Demo,
    /// Benchmark Sheaves against other allocators and primitives.
    Bench(sheaves_bench::cli::Args),
    /// Stress-test a subsystem and report violations.
    Torture(sheaves_torture::cli::Args),
    /// Show which calls allocated the memory that a program uses.
    Prof {
        /// What to do.
        #[command(subcommand)]
        command: ProfCommand,
    },
    /// Find errors in the use of memory by a few guarded blocks of a process.
    Guard {
        /// What to do.
        #[command(subcommand)]
        command: GuardCommand,
    },
    /// Explain a core dump of a process with guarded blocks.
    Inspect(InspectOptions),
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
#[command(after_help = notes::RUN)]
pub(crate) struct RunOptions {
    /// Print statistics per size class to stderr when each program exits.
    #[arg(
        long,
        value_name = "FORMAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "text"
    )]
    pub(crate) stats: Option<StatsFormat>,

    /// Write the statistics to this file, emptied before, instead of stderr (implies --stats).
    #[arg(long, value_name = "PATH")]
    pub(crate) stats_file: Option<PathBuf>,

    /// Check frees and blocks: sets SHEAVES_HARDEN=1.
    #[arg(long)]
    pub(crate) harden: bool,

    /// The preload object (default: $SHEAVES_PRELOAD, else the one installed with this command).
    #[arg(long, value_name = "PATH")]
    pub(crate) preload: Option<PathBuf>,

    /// Have each program print on stderr, when it starts, which engine it runs on, or whose malloc
    /// it uses. No line: the object was not loaded.
    #[arg(short, long, conflicts_with_all = ["stats", "stats_file"])]
    pub(crate) verbose: bool,

    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        add = programs(),
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

/// Options of `sheaves stat`.
#[derive(Debug, Args)]
#[command(after_help = notes::STAT)]
pub(crate) struct StatOptions {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,

    /// The process.
    #[arg(value_name = "PID|NAME", add = processes())]
    pub(crate) process: String,
}

/// Options of `sheaves top`.
#[derive(Debug, Args)]
#[command(after_help = notes::TOP)]
pub(crate) struct TopOptions {
    /// Print text once, without a terminal.
    #[arg(long)]
    pub(crate) once: bool,

    /// Print a line of JSON each time instead.
    #[arg(long)]
    pub(crate) json: bool,

    /// The time from one answer to the next, at least 0.1.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub(crate) interval: f64,

    /// What caches are sorted by, as by the same key of slabtop(1).
    #[arg(long, value_name = "KEY", value_enum)]
    pub(crate) sort: Option<Sort>,

    /// The process (default: all that answer this user).
    #[arg(value_name = "PID|NAME", add = processes())]
    pub(crate) process: Option<String>,
}

/// What the caches are sorted by, and the key of slabtop(1) where it has one.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Sort {
    /// Objects in use.
    #[value(name = "a")]
    Active,
    /// Objects per slab.
    #[value(name = "b")]
    ObjectsPerSlab,
    /// Bytes of slabs.
    #[value(name = "c")]
    Bytes,
    /// Flushes per second.
    #[value(name = "f")]
    Flushes,
    /// Slabs.
    #[value(name = "l")]
    Slabs,
    /// Name.
    #[value(name = "n")]
    Name,
    /// Objects.
    #[value(name = "o")]
    Objects,
    /// Objects in the sheaves of slots.
    #[value(name = "p")]
    PerCpu,
    /// Refills per second.
    #[value(name = "r")]
    Refills,
    /// Size of an object.
    #[value(name = "s")]
    Size,
    /// Use of slabs in percent.
    #[value(name = "u")]
    Use,
}

/// Options of `sheaves export`.
#[derive(Debug, Args)]
#[command(after_help = notes::EXPORT)]
pub(crate) struct ExportOptions {
    /// Serve them at http://ADDRESS/metrics instead, such as 127.0.0.1:9464.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,

    /// The processes, by their numbers or names (default: all that answer this user).
    #[arg(value_name = "PID|NAME", add = processes())]
    pub(crate) processes: Vec<String>,
}

/// Options of `sheaves rcu`.
#[derive(Debug, Args)]
#[command(after_help = notes::RCU)]
pub(crate) struct RcuOptions {
    /// How long to look for long sections.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    pub(crate) seconds: f64,

    /// The process.
    #[arg(value_name = "PID|NAME", add = processes())]
    pub(crate) process: String,
}

/// A number of seconds.
fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=86_400.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 86400".to_owned())
}

/// The subcommands of `sheaves prof`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ProfCommand {
    /// Show a heap profile, as text, pprof file or flame graph.
    Heap(ProfHeap),
    /// Write the samples of a process to a file, for `heap` and `diff`.
    #[command(after_help = notes::DUMP)]
    Dump {
        /// The process.
        #[arg(value_name = "PID|NAME", add = processes())]
        process: String,
        /// The file (default: stdout).
        #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
    },
    /// Compare two heap profiles.
    #[command(after_help = notes::DIFF)]
    Diff {
        /// A process, or a file that `dump` or SHEAVES_PROF_FILE has made. Where a file has the
        /// name of a process, give its PID.
        #[arg(value_name = "PID|NAME|FILE", add = sources())]
        before: String,
        /// The same, later.
        #[arg(value_name = "PID|NAME|FILE", add = sources())]
        after: String,
        /// Write a flame graph, in which what has grown is red and what has shrunk is blue.
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        svg: Option<PathBuf>,
    },
    /// Show what has grown in some time and was never freed.
    Leaks(ProfLeaks),
    /// Turn the profiling of a process on. Earlier samples are forgotten.
    #[command(after_help = notes::PROF_ON)]
    On {
        /// The process.
        #[arg(value_name = "PID|NAME", add = processes())]
        process: String,
        /// Mean bytes from one sample to the next.
        #[arg(long, value_name = "BYTES", default_value_t = 512 << 10,
              value_parser = clap::value_parser!(u64).range(1024..))]
        rate: u64,
    },
    /// Turn the profiling of a process off. The samples stay until they are freed.
    #[command(after_help = notes::PROF_ON)]
    Off {
        /// The process.
        #[arg(value_name = "PID|NAME", add = processes())]
        process: String,
    },
}

/// The subcommands of `sheaves guard`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum GuardCommand {
    /// Guard some of the blocks that a process allocates from now on.
    #[command(after_help = notes::GUARD)]
    On {
        /// The process.
        #[arg(value_name = "PID|NAME", add = processes())]
        process: String,
        /// One in how many samples of the heap is guarded. There is a sample in 512 KiB.
        #[arg(long, value_name = "1/N", default_value = "1/16", value_parser = one_in)]
        rate: u64,
    },
    /// Guard no further blocks. Those that there are stay guarded until they are freed.
    #[command(after_help = notes::GUARD)]
    Off {
        /// The process.
        #[arg(value_name = "PID|NAME", add = processes())]
        process: String,
    },
}

/// The N of `1/N`.
fn one_in(text: &str) -> Result<u64, String> {
    let number = text.strip_prefix("1/").and_then(|number| number.parse().ok());
    let most = ONE_IN_MAX as u64;
    let number = number.filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("expected 1/N with N up to {most}"))
}

/// Options of `sheaves inspect`.
#[derive(Debug, Args)]
#[command(after_help = notes::INSPECT)]
pub(crate) struct InspectOptions {
    /// The core dump.
    #[arg(value_name = "CORE", value_hint = ValueHint::FilePath)]
    pub(crate) core: PathBuf,
}

/// Options of `sheaves prof heap`.
#[derive(Debug, Args)]
#[command(after_help = notes::HEAP)]
pub(crate) struct ProfHeap {
    /// A process, or a file that `dump` or SHEAVES_PROF_FILE has made. Where a file has the name
    /// of a process, give its PID.
    #[arg(value_name = "PID|NAME|FILE", add = sources())]
    pub(crate) source: String,

    /// Write a profile for pprof and its relatives, compressed.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// Write a flame graph.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,

    /// Print the largest sites. The default without --output and --svg.
    #[arg(long)]
    pub(crate) text: bool,

    /// Sites to print.
    #[arg(long, value_name = "COUNT", default_value_t = 30)]
    pub(crate) count: usize,
}

/// Options of `sheaves prof leaks`.
#[derive(Debug, Args)]
#[command(after_help = notes::LEAKS)]
pub(crate) struct ProfLeaks {
    /// The process.
    #[arg(value_name = "PID|NAME", add = processes())]
    pub(crate) process: String,

    /// Write a flame graph of what has grown.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,

    /// The time between the two profiles.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) seconds: u64,
}

/// Options of `sheaves doctor`.
#[derive(Debug, Args)]
#[command(after_help = notes::DOCTOR)]
pub(crate) struct DoctorOptions {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,

    /// The preload object to examine (default: the one that `sheaves run` would use).
    #[arg(long, value_name = "PATH")]
    pub(crate) preload: Option<PathBuf>,

    /// Also report whether this program can run on Sheaves.
    #[arg(value_name = "PROGRAM", add = programs())]
    pub(crate) program: Option<OsString>,
}
