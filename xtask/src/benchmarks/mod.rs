//! The figures in BENCHMARKS.md and in the README, made from reports of the bench.
//!
//! `docs/benchmarks/MACHINE/TABLE.json` is a report that was made on that machine. The text between
//! two marks in each document is made from these files.

mod number;
mod programs;

use core::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::repo;
use number::number;

/// The reports, in a folder for each machine.
const REPORTS: &str = "docs/benchmarks";
const BEGIN: &str = "<!-- figures -->\n";
const END: &str = "<!-- /figures -->\n";

/// What is measured: the name of a report, and the arguments of the bench.
const TABLES: [(&str, &[&str]); 13] = [
    ("pair", &["pair", "--sizes", "64,4096"]),
    ("batch", &["batch/shuffled", "--sizes", "64,4096"]),
    ("remote", &["remote/1to1", "--sizes", "1024"]),
    ("replace", &["replace"]),
    ("large", &["large/touched", "--sizes", "256,4096"]),
    ("mixed", &["mixed/2t-25", "--sizes", "5000"]),
    ("footprint", &["footprint/shift"]),
    ("slabtest", &["slabtest/2", "--sizes", "64"]),
    ("readers", &["readers/enter-leave"]),
    ("counter", &["counter"]),
    ("dispose", &["dispose"]),
    ("synchronize", &["synchronize"]),
    ("map", &["map"]),
];

/// Contenders that are no peers: our own, earlier forms and lower limits, and liburcu's QSBR, whose
/// read sections are empty.
const NO_PEERS: [&str; 9] = [
    "locked",
    "tid",
    "floor",
    "before",
    "after",
    "callback",
    "prototype",
    "thread-local",
    "liburcu-qsbr",
];

/// A line of the documents.
struct Line {
    words: &'static str,
    table: &'static str,
    workload: &'static str,
    contender: &'static str,
    /// What the figures are divided by.
    divisor: f64,
    is_in_readme: bool,
}

const fn line(
    words: &'static str,
    table: &'static str,
    workload: &'static str,
    contender: &'static str,
) -> Line {
    Line { words, table, workload, contender, divisor: 1.0, is_in_readme: false }
}

const LINES: [Line; 26] = [
    Line {
        is_in_readme: true,
        ..line("alloc + free of a named cache, 64 B", "pair", "pair/64", "cache")
    },
    line("the same, 4 KiB", "pair", "pair/4096", "cache"),
    line("alloc + free with a layout (Rust), 64 B", "pair", "pair/64", "sized"),
    Line { is_in_readme: true, ..line("`malloc` + `free`, 64 B", "pair", "pair/64", "malloc") },
    line("the same, 4 KiB", "pair", "pair/4096", "malloc"),
    line(
        "10,000 `malloc`, then 10,000 `free` shuffled, 64 B, each pair",
        "batch",
        "batch/shuffled/64",
        "malloc",
    ),
    line("the same, 4 KiB", "batch", "batch/shuffled/4096", "malloc"),
    line(
        "one thread allocates, one frees, 1 KiB, with the queue",
        "remote",
        "remote/1to1/1024",
        "malloc",
    ),
    line(
        "two threads replace blocks of 16 to 1,016 B at random",
        "replace",
        "replace/2t",
        "malloc",
    ),
    line("a block of 256 KiB, each page written", "large", "large/touched/256", "malloc"),
    line("the same, 4 MiB", "large", "large/touched/4096", "malloc"),
    line(
        "two threads replace blocks of 8 to 16,000 B, 25 % freed by the other",
        "mixed",
        "mixed/2t-25/5000",
        "malloc",
    ),
    Line {
        divisor: 1048576.0,
        ..line(
            "four threads keep 128 MiB in blocks whose sizes shift, mean resident, MiB",
            "footprint",
            "footprint-mean/shift",
            "malloc",
        )
    },
    line(
        "the kernel's `slab_test`, part 2, on a named cache, 64 B",
        "slabtest",
        "slabtest/2/64",
        "cache",
    ),
    line("RCU: enter and leave a read section", "readers", "enter-leave/1t", "rcu"),
    line("an event counted, one thread", "counter", "counter/1t", "counter"),
    Line {
        is_in_readme: true,
        ..line("new object + deferred free, one thread", "dispose", "dispose/1t", "sheaves")
    },
    line("the same, two threads", "dispose", "dispose/2t", "sheaves"),
    line("one thread waits for a grace period, no thread reads", "synchronize", "alone", "direct"),
    Line {
        divisor: 1e6,
        ..line(
            "ten threads wait 1,000 times each, total, ms",
            "synchronize",
            "10x1000-total",
            "direct",
        )
    },
    Line {
        divisor: 1e6,
        ..line(
            "500 threads wait 100 times each, total, ms",
            "synchronize",
            "waiters-total/500",
            "direct",
        )
    },
    Line {
        divisor: 1e3,
        ..line(
            "one waits beside 10,000 registered threads, us",
            "synchronize",
            "registered/10000",
            "direct",
        )
    },
    line(
        "a map of 10,000 entries, two threads: 99 % lookups",
        "map",
        "map/read-99/2t/10000",
        "rcu-map",
    ),
    line("90 % lookups", "map", "map/mixed-90/2t/10000", "rcu-map"),
    line("50 % lookups", "map", "map/write-50/2t/10000", "rcu-map"),
    line("growing to 1,000,000 entries, each insertion", "map", "map/grow/2t/1000000", "rcu-map"),
];

/// A report of the bench: the fields that are used here.
#[derive(Deserialize, Serialize)]
struct Report {
    machine: Machine,
    rows: Vec<Figure>,
    ratios: Vec<Ratio>,
}

#[derive(Deserialize, Serialize, PartialEq)]
struct Machine {
    cpu: String,
    cpus: usize,
    kernel: String,
    glibc: String,
    thp: String,
    commit: Option<String>,
}

#[derive(Deserialize, Serialize)]
struct Figure {
    workload: String,
    contender: String,
    unit: String,
    #[serde(flatten)]
    summary: Summary,
}

/// One contender to another, taken round by round.
#[derive(Deserialize, Serialize)]
struct Ratio {
    workload: String,
    of: String,
    to: String,
    #[serde(flatten)]
    summary: Summary,
}

#[derive(Deserialize, Serialize)]
struct Summary {
    samples: usize,
    median: f64,
    /// 10th percentile.
    low: f64,
    /// 90th percentile.
    high: f64,
}

/// Writes the figures into the documents; with `check` fails if they are not up to date. With
/// `machine` measures before that, which takes four minutes on an idle machine, and stores the
/// reports under that name.
pub fn run(root: &Path, check: bool, machine: Option<&str>) -> anyhow::Result<()> {
    if let Some(machine) = machine {
        measure(root, &root.join(REPORTS).join(machine))?;
    }
    let mut machines = folders(&root.join(REPORTS))?;
    machines.sort();
    let first = machines.first().with_context(|| format!("{REPORTS} has no machine"))?;
    let all: String = machines.iter().map(|folder| section(folder)).collect::<Result<_, _>>()?;
    replace(&root.join("BENCHMARKS.md"), &all, check)?;
    let (table, machine) = table(first, |line| line.is_in_readme)?;
    let programs = programs::in_readme(first)?;
    replace(&root.join("README.md"), &format!("{table}\n{programs}{machine}\n"), check)
}

fn measure(root: &Path, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder)?;
    for (name, arguments) in TABLES {
        let file = folder.join(format!("{name}.json"));
        let mut bench = repo::cargo(root);
        bench.args(["run", "--quiet", "--release", "-p", "sheaves-bench", "--features", "peers"]);
        bench.arg("--").args(arguments).arg("--quick").arg("--json").arg(&file);
        print!("{}", repo::output_of(&mut bench)?);
        // Without what nothing is made of here, and without the name of the kernel's build.
        let mut report = read(&file)?;
        let version = report.machine.kernel.split(['.', '-']).take(2).collect::<Vec<_>>().join(".");
        report.machine.kernel = version;
        fs::write(&file, serde_json::to_string(&report)? + "\n")?;
    }
    Ok(())
}

fn read(file: &Path) -> anyhow::Result<Report> {
    let json = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    serde_json::from_str(&json).with_context(|| file.display().to_string())
}

fn folders(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path).with_context(|| path.display().to_string())?;
    let paths = entries.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}

fn section(folder: &Path) -> anyhow::Result<String> {
    let (table, machine) = table(folder, |_| true)?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let programs = programs::all(folder)?;
    Ok(format!("### {name}\n\n{machine}\n\n{table}\n{programs}"))
}

/// The table of a machine, and a sentence about the machine.
fn table(folder: &Path, is_wanted: impl Fn(&Line) -> bool) -> anyhow::Result<(String, String)> {
    let mut text =
        "| workload | Sheaves | best peer | ratio | table |\n|---|--:|--:|--:|---|\n".to_owned();
    let mut about = String::new();
    for line in LINES.iter().filter(|line| is_wanted(line)) {
        let file = folder.join(format!("{}.json", line.table));
        if !file.exists() {
            // The machine was measured before the table was made.
            continue;
        }
        let report = read(&file)?;
        let cells = cells(line, &report).with_context(|| file.display().to_string())?;
        let _ = writeln!(text, "| {} | {cells} | `{}` |", line.words, line.table);
        about = report.machine.about(&folder.file_name().unwrap_or_default().to_string_lossy());
    }
    Ok((text, about))
}

impl Machine {
    fn about(&self, name: &str) -> String {
        let Machine { cpu, cpus, kernel, glibc, thp, commit } = self;
        let commit = commit.as_deref().unwrap_or("unknown");
        format!(
            "Measured on {cpus} CPUs of an {cpu} ({name}), Linux {kernel}, glibc {glibc}, huge \
             pages {thp}, commit {commit}."
        )
    }
}

/// Our figure, the best peer's and the ratio with its spread.
fn cells(line: &Line, report: &Report) -> anyhow::Result<String> {
    let of = |figure: &&Figure| figure.workload == line.workload;
    let own = report.rows.iter().filter(of).find(|figure| figure.contender == line.contender);
    let own = own.with_context(|| format!("no row {} of {}", line.workload, line.contender))?;
    let ratios = report.ratios.iter();
    let ratios = ratios.filter(|it| it.workload == line.workload && it.of == line.contender);
    let compared: Vec<_> = ratios.collect();
    let is_peer = |figure: &&Figure| {
        let name = figure.contender.as_str();
        let is_compared = compared.iter().any(|ratio| ratio.to == name);
        name != line.contender && !NO_PEERS.contains(&name) && (compared.is_empty() || is_compared)
    };
    let peers = report.rows.iter().filter(of).filter(is_peer);
    let best = peers.min_by(|a, b| a.summary.median.total_cmp(&b.summary.median));
    let best = best.with_context(|| format!("no peer in {}", line.workload))?;
    let figure = |figure: &Figure| number(figure.summary.median / line.divisor);
    let spread = compared.iter().find(|ratio| ratio.to == best.contender);
    let spread = spread.map_or(String::new(), |ratio| {
        format!(" ({}..{})", number(ratio.summary.low), number(ratio.summary.high))
    });
    let ratio = number(own.summary.median / best.summary.median);
    let peer = &best.contender;
    Ok(format!("{} | {peer} {} | {ratio}{spread}", figure(own), figure(best)))
}

/// Replaces the text between the marks in a document; with `check` fails if it would change.
fn replace(document: &Path, figures: &str, check: bool) -> anyhow::Result<()> {
    let context = || document.display().to_string();
    let text = fs::read_to_string(document).with_context(context)?;
    let (before, rest) =
        text.split_once(BEGIN).context("no mark for figures").with_context(context)?;
    let (_, after) = rest.split_once(END).context("no end of figures").with_context(context)?;
    let new = format!("{before}{BEGIN}{figures}{END}{after}");
    if check {
        anyhow::ensure!(new == text, "{} is stale: run `cargo xtask benchmarks`", context());
        return Ok(());
    }
    fs::write(document, new).with_context(context)
}
