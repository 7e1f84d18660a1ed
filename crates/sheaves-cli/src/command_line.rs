//! The options of every subcommand; help, completions and the man page are generated from them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use clap_complete::Shell;
use sheaves_slab::internal::trap::ONE_IN_MAX;

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
#[command(after_help = "The command becomes PROGRAM: process number, signals and exit status are \
                        PROGRAM's. A program that cannot run on Sheaves is refused before: one \
                        that is static, setuid, for another machine or C library, or built with a \
                        sanitizer. An allocator that PROGRAM or its libraries bring is named in a \
                        warning. Exit status of a refusal: 127 when PROGRAM is not found; 126 \
                        when it cannot run, or cannot run on Sheaves; 125 when Sheaves itself \
                        failed.")]
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

/// The exit statuses of the commands that ask a running process.
const ASK_STATUSES: &str = "Exit status: 0; 67 when there is no such process; 69 when it does not \
                            run on Sheaves or ends; 74 when stdout cannot be written; 75 when it \
                            does not answer now; 76 when its answer cannot be understood; 77 when \
                            it is another user's.";

/// Options of `sheaves stat`.
#[derive(Debug, Args)]
#[command(after_help = ASK_STATUSES)]
pub(crate) struct StatOptions {
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub(crate) json: bool,

    /// The process.
    #[arg(value_name = "PID")]
    pub(crate) pid: u32,
}

/// Options of `sheaves top`.
#[derive(Debug, Args)]
#[command(after_help = ASK_STATUSES)]
pub(crate) struct TopOptions {
    /// Print text once, without a terminal.
    #[arg(long)]
    pub(crate) once: bool,

    /// Print a line of JSON each time instead.
    #[arg(long)]
    pub(crate) json: bool,

    /// The time between two questions.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub(crate) interval: f64,

    /// What caches are sorted by, as by the same key of slabtop(1).
    #[arg(long, value_name = "KEY", value_enum)]
    pub(crate) sort: Option<Sort>,

    /// The process (default: all that answer this user).
    #[arg(value_name = "PID")]
    pub(crate) pid: Option<u32>,
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
#[command(after_help = ASK_STATUSES)]
pub(crate) struct ExportOptions {
    /// Serve them at http://ADDRESS/metrics instead, such as 127.0.0.1:9464.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,

    /// The processes, by their numbers or names (default: all that answer this user).
    #[arg(value_name = "PID|NAME")]
    pub(crate) processes: Vec<String>,
}

/// Options of `sheaves rcu`.
#[derive(Debug, Args)]
#[command(after_help = ASK_STATUSES)]
pub(crate) struct RcuOptions {
    /// How long to look for long sections.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    pub(crate) seconds: f64,

    /// The process.
    #[arg(value_name = "PID")]
    pub(crate) pid: u32,
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
    /// Compare two heap profiles.
    Diff {
        /// A process id, or a file with a dump.
        before: String,
        /// A process id, or a file with a dump.
        after: String,
    },
    /// Show what has grown in some time and was never freed.
    Leaks(ProfLeaks),
    /// Turn the profiling of a process on. Earlier samples are forgotten.
    #[command(after_help = ASK_STATUSES)]
    On {
        /// The process.
        pid: u32,
        /// Mean bytes from one sample to the next.
        #[arg(long, value_name = "BYTES", default_value_t = 512 << 10,
              value_parser = clap::value_parser!(u64).range(1024..))]
        rate: u64,
    },
    /// Turn the profiling of a process off. The samples stay until they are freed.
    #[command(after_help = ASK_STATUSES)]
    Off {
        /// The process.
        pid: u32,
    },
}

/// The subcommands of `sheaves guard`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum GuardCommand {
    /// Guard some of the blocks that a process allocates from now on.
    #[command(after_help = ASK_STATUSES)]
    On {
        /// The process.
        pid: u32,
        /// One in how many samples of the heap is guarded. There is a sample in 512 KiB.
        #[arg(long, value_name = "1/N", default_value = "1/16", value_parser = one_in)]
        rate: u64,
    },
    /// Guard no further blocks. Those that there are stay guarded until they are freed.
    #[command(after_help = ASK_STATUSES)]
    Off {
        /// The process.
        pid: u32,
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
#[command(after_help = "Exit status: 0; 1 when the process had no guarded block there; 65 when \
                        the file is no core dump of a process with guarded blocks; 66 when it \
                        cannot be read.")]
pub(crate) struct InspectOptions {
    /// The core dump.
    #[arg(value_name = "CORE")]
    pub(crate) core: PathBuf,
}

/// Options of `sheaves prof heap`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0; 65 when the source is not a heap profile; 66 when it cannot \
                        be read; 67, 69, 75, 76 or 77 when the process cannot be asked, see \
                        `sheaves stat --help`; 73 when a file cannot be written, 74 when \
                        stdout cannot be."
)]
pub(crate) struct ProfHeap {
    /// A process id, or a file with a dump.
    pub(crate) source: String,

    /// Write a profile for pprof and its relatives, compressed.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write a flame graph.
    #[arg(long, value_name = "FILE")]
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
#[command(after_help = ASK_STATUSES)]
pub(crate) struct ProfLeaks {
    /// The process.
    pub(crate) pid: u32,

    /// Time between the two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) seconds: u64,
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
