//! The figures of `cargo xtask programs`, made from its report.

use core::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::lines::{name_of, report_in};
use super::number::{number, range};
use crate::median::geometric_mean;
use crate::programs::{AGAIN, OURS, is_peer};

/// The name of the report of a machine.
const TABLE: &str = "programs";

const HEAD: &str = "Programs to the same on glibc's malloc: throughput, more is better; processor \
                    time for the same work and, in brackets, peak memory, less is better. jemalloc \
                    and tcmalloc (that of gperftools) are Debian's. Means are over the programs \
                    that run on all.";

/// A report: the fields that are used here.
#[derive(Deserialize)]
struct Report {
    /// What is to be known of the run, if anything.
    #[serde(default)]
    note: String,
    allocators: Vec<String>,
    programs: Vec<Program>,
}

#[derive(Deserialize)]
struct Program {
    name: String,
    /// By allocator; `None` where the program did not run.
    rows: Vec<Option<Row>>,
}

#[derive(Deserialize)]
struct Row {
    ratio: f64,
    processor_ratio: f64,
    peak_kib: f64,
    /// One for each round.
    samples: Vec<IgnoredAny>,
}

/// A program under an allocator, to the same under glibc's.
struct Figures {
    throughput: f64,
    processor_time: f64,
    peak: f64,
}

impl Figures {
    /// Geometric means.
    fn mean(of: &[Figures]) -> Figures {
        let mean = |figure: Figure| geometric_mean(of.iter().map(figure));
        Figures {
            throughput: mean(|it| it.throughput),
            processor_time: mean(|it| it.processor_time),
            peak: mean(|it| it.peak),
        }
    }

    fn cell(&self) -> String {
        let [throughput, time, peak] =
            [self.throughput, self.processor_time, self.peak].map(number);
        format!("{throughput}, {time} ({peak})")
    }
}

type Figure = fn(&Figures) -> f64;

/// What the README's rows say of each figure.
const ROWS: [(&str, Figure); 3] = [
    ("throughput to glibc, more is better", |it| it.throughput),
    ("processor time to glibc, less is better", |it| it.processor_time),
    ("peak memory to glibc, less is better", |it| it.peak),
];

/// All programs under all allocators; empty where the machine has no report.
pub(super) fn all(folder: &Path) -> anyhow::Result<String> {
    let Some(report) = report_in::<Report>(folder, TABLE)? else { return Ok(String::new()) };
    let shown: Vec<usize> = (1..report.allocators.len()).collect();
    let rows = report.programs.iter().flat_map(|program| program.rows.iter().flatten());
    let rounds = range(rows.map(|row| row.samples.len() as f64));
    let note = &report.note;
    let mut text = format!("{HEAD} Medians of {rounds} rounds.{note}\n\n| program |");
    // Writing to a string cannot fail, here and below.
    for index in &shown {
        let _ = write!(text, " {} |", report.allocators[*index]);
    }
    let _ = writeln!(text, "\n|---|{}", "--:|".repeat(shown.len()));
    for program in &report.programs {
        let cell = |index: &usize| {
            program.figures(*index).map_or("does not run".into(), |figures| figures.cell())
        };
        let cells: Vec<String> = shown.iter().map(cell).collect();
        let _ = writeln!(text, "| {} | {} |", program.name, cells.join(" | "));
    }
    let cells: Vec<String> = shown.iter().map(|index| report.mean(*index).cell()).collect();
    let _ = writeln!(text, "| geometric mean | {} |\n", cells.join(" | "));
    Ok(text)
}

/// The README's rows: geometric means over the programs beside those of the peers, as ranges over
/// the machines that have a report. With the names of these machines.
pub(super) fn in_readme(folders: &[PathBuf]) -> anyhow::Result<(Vec<String>, String)> {
    let (mut names, mut reports) = (Vec::new(), Vec::new());
    for folder in folders {
        if let Some(report) = report_in::<Report>(folder, TABLE)? {
            names.push(name_of(folder).into_owned());
            reports.push(report);
        }
    }
    if reports.is_empty() {
        return Ok((names, String::new()));
    }
    let count = reports.iter().map(|report| report.common().count()).min().unwrap_or(0);
    let means = |is_wanted: fn(&str) -> bool| -> Vec<Figures> {
        reports.iter().flat_map(|report| report.means(is_wanted)).collect()
    };
    let [ours, peers, again] = [means(|it| it == OURS), means(is_peer), means(|it| it == AGAIN)];
    let mut text = String::new();
    for (words, figure) in &ROWS {
        let [own, peers, noise] = [&ours, &peers, &again].map(|it| range(it.iter().map(figure)));
        let _ = writeln!(
            text,
            "| {count} programs, {words} | {own} | {peers} | {AGAIN} {noise} | `programs` |"
        );
    }
    Ok((names, text))
}

impl Report {
    /// The means of the allocators of such a name.
    fn means(&self, is_wanted: fn(&str) -> bool) -> impl Iterator<Item = Figures> {
        let names = self.allocators.iter().enumerate();
        names.filter(move |(_, name)| is_wanted(name)).map(|(index, _)| self.mean(index))
    }

    /// The programs that run on all allocators.
    fn common(&self) -> impl Iterator<Item = &Program> {
        self.programs.iter().filter(|program| program.rows.iter().all(Option::is_some))
    }

    fn mean(&self, allocator: usize) -> Figures {
        let run = self.common().filter_map(|program| program.figures(allocator));
        Figures::mean(&run.collect::<Vec<_>>())
    }
}

impl Program {
    fn figures(&self, allocator: usize) -> Option<Figures> {
        let (row, glibc) = (self.rows[allocator].as_ref()?, self.rows[0].as_ref()?);
        Some(Figures {
            throughput: row.ratio,
            processor_time: row.processor_ratio,
            peak: row.peak_kib / glibc.peak_kib,
        })
    }
}
