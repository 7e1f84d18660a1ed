//! The lines of the tables, and what a machine's report says of each.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::number::number;

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
pub(super) struct Line {
    pub(super) words: &'static str,
    pub(super) table: &'static str,
    workload: &'static str,
    contender: &'static str,
    /// What the figures are divided by.
    divisor: f64,
    pub(super) is_in_readme: bool,
}

const fn line(
    words: &'static str,
    table: &'static str,
    workload: &'static str,
    contender: &'static str,
) -> Line {
    Line { words, table, workload, contender, divisor: 1.0, is_in_readme: false }
}

impl Line {
    const fn in_readme(self) -> Line {
        Line { is_in_readme: true, ..self }
    }

    const fn divided_by(self, divisor: f64) -> Line {
        Line { divisor, ..self }
    }
}

pub(super) const LINES: [Line; 30] = [
    line("alloc + free of a named cache, 64 B", "pair", "pair/64", "cache").in_readme(),
    line("the same, 4 KiB", "pair", "pair/4096", "cache"),
    line("alloc + free with a layout (Rust), 64 B", "pair", "pair/64", "sized").in_readme(),
    line("`malloc` + `free`, 64 B", "pair", "pair/64", "malloc").in_readme(),
    line("the same, 4 KiB", "pair", "pair/4096", "malloc"),
    line(
        "eight `malloc`, then eight `free`, 4 KiB, each pair",
        "eight",
        "pair/eight/4096",
        "malloc",
    ),
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
        "one thread replaces 20 blocks of 5 to 25 MiB, each page written, us",
        "alive",
        "large/alive-1t/5-25-touched",
        "malloc",
    )
    .divided_by(1e3),
    line(
        "two threads replace blocks of 8 to 16,000 B, 25 % freed by the other",
        "mixed",
        "mixed/2t-25/5000",
        "malloc",
    ),
    line(
        "four threads keep 128 MiB in blocks whose sizes shift, mean resident, MiB",
        "footprint",
        "footprint-mean/shift",
        "malloc",
    )
    .divided_by(1048576.0),
    line(
        "the kernel's `slab_test`, part 2, on a named cache, 64 B",
        "slabtest",
        "slabtest/2/64",
        "cache",
    ),
    line("longest `malloc` in a heap of 4 GiB, us", "worst", "worst/malloc/4096-mib", "malloc")
        .divided_by(1e3),
    line("longest `free` there, us", "worst", "worst/free/4096-mib", "malloc").divided_by(1e3),
    line("RCU: enter and leave a read section", "readers", "enter-leave/1t", "rcu").in_readme(),
    line("an event counted, one thread", "counter", "counter/1t", "counter"),
    line("new object + deferred free, one thread", "dispose", "dispose/1t", "sheaves").in_readme(),
    line("the same, two threads", "dispose", "dispose/2t", "sheaves").in_readme(),
    line("one thread waits for a grace period, no thread reads", "synchronize", "alone", "direct"),
    line("ten threads wait 1,000 times each, total, ms", "synchronize", "10x1000-total", "direct")
        .divided_by(1e6),
    line(
        "500 threads wait 100 times each, total, ms",
        "synchronize",
        "waiters-total/500",
        "direct",
    )
    .divided_by(1e6),
    line(
        "one waits beside 10,000 registered threads, us",
        "synchronize",
        "registered/10000",
        "direct",
    )
    .divided_by(1e3),
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
pub(super) struct Report {
    pub(super) machine: Machine,
    rows: Vec<Figure>,
    ratios: Vec<Ratio>,
}

#[derive(Deserialize, Serialize, PartialEq)]
pub(super) struct Machine {
    cpu: String,
    cpus: usize,
    pub(super) kernel: String,
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

/// A report of a machine; `None` if the machine was measured before there was such a one.
pub(super) fn report_in<T: DeserializeOwned>(
    folder: &Path,
    table: &str,
) -> anyhow::Result<Option<T>> {
    let file = folder.join(format!("{table}.json"));
    if !file.exists() {
        return Ok(None);
    }
    let context = || file.display().to_string();
    let json = fs::read_to_string(&file).with_context(context)?;
    serde_json::from_str(&json).map(Some).with_context(context)
}

/// The name of a machine: that of its folder.
pub(super) fn name_of(folder: &Path) -> Cow<'_, str> {
    folder.file_name().unwrap_or_default().to_string_lossy()
}

impl Report {
    /// The median of a contender in a row.
    pub(super) fn median(&self, workload: &str, contender: &str) -> Option<f64> {
        let mut rows = self.rows.iter().filter(|row| row.workload == workload);
        Some(rows.find(|row| row.contender == contender)?.summary.median)
    }
}

/// What the tables of a machine's section were measured on; which of them, where that differs.
pub(super) fn about(name: &str, tables: &[(&str, Machine)]) -> String {
    let mut found: Vec<(&Machine, Vec<String>)> = Vec::new();
    for (table, machine) in tables {
        let table = format!("`{table}`");
        match found.iter_mut().find(|(other, _)| *other == machine) {
            None => found.push((machine, vec![table])),
            Some((_, tables)) if tables.contains(&table) => {}
            Some((_, tables)) => tables.push(table),
        }
    }
    let is_one = found.len() == 1;
    let lines = found.iter().map(|(machine, tables)| {
        let of = if is_one { String::new() } else { format!(": {}", tables.join(", ")) };
        machine.about(name) + &of + "."
    });
    lines.collect::<Vec<_>>().join(" ")
}

impl Machine {
    fn about(&self, name: &str) -> String {
        let Machine { cpu, cpus, kernel, glibc, thp, commit } = self;
        let commit = commit.as_deref().unwrap_or("unknown");
        format!(
            "Measured on {cpus} CPUs of an {cpu} ({name}), Linux {kernel}, glibc {glibc}, huge \
             pages {thp}, commit {commit}"
        )
    }
}

/// What a machine's report says of a line.
pub(super) struct Figures {
    pub(super) machine: Machine,
    pub(super) own: f64,
    peer: String,
    pub(super) best: f64,
    /// The ratio: its median over the rounds, and where that was not taken, that of the figures.
    pub(super) ratio: f64,
    /// The 10th and 90th percentile over the rounds.
    spread: Option<(f64, f64)>,
}

/// Of a line; `None` if the machine was measured before the table was made.
pub(super) fn figures(line: &Line, folder: &Path) -> anyhow::Result<Option<Figures>> {
    let Some(report) = report_in(folder, line.table)? else { return Ok(None) };
    let context = || format!("{}, {}", name_of(folder), line.table);
    Figures::of(line, report).map(Some).with_context(context)
}

impl Figures {
    /// Our figure, the best peer's and the ratio with its spread.
    fn of(line: &Line, report: Report) -> anyhow::Result<Figures> {
        let of = |figure: &&Figure| figure.workload == line.workload;
        let own = report.rows.iter().filter(of).find(|figure| figure.contender == line.contender);
        let own = own.with_context(|| format!("no row {} of {}", line.workload, line.contender))?;
        let ratios = report.ratios.iter();
        let ratios = ratios.filter(|it| it.workload == line.workload && it.of == line.contender);
        let compared: Vec<_> = ratios.collect();
        let is_peer = |figure: &&Figure| {
            let name = figure.contender.as_str();
            let is_compared = compared.is_empty() || compared.iter().any(|ratio| ratio.to == name);
            name != line.contender && !NO_PEERS.contains(&name) && is_compared
        };
        let peers = report.rows.iter().filter(of).filter(is_peer);
        let best = peers.min_by(|a, b| a.summary.median.total_cmp(&b.summary.median));
        let best = best.with_context(|| format!("no peer in {}", line.workload))?;
        let by_rounds = compared.iter().find(|ratio| ratio.to == best.contender);
        let by_rounds = by_rounds.map(|ratio| &ratio.summary);
        let [own, other] = [own, best].map(|figure| figure.summary.median);
        Ok(Figures {
            own: own / line.divisor,
            peer: best.contender.clone(),
            best: other / line.divisor,
            ratio: by_rounds.map_or(own / other, |ratio| ratio.median),
            spread: by_rounds.map(|ratio| (ratio.low, ratio.high)),
            machine: report.machine,
        })
    }

    pub(super) fn cells(&self) -> String {
        let [own, best, ratio] = [self.own, self.best, self.ratio].map(number);
        let spread = self
            .spread
            .map_or(String::new(), |(low, high)| format!(" ({}..{})", number(low), number(high)));
        format!("{own} | {} {best} | {ratio}{spread}", self.peer)
    }
}
