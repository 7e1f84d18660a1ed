//! The figures of `cargo xtask programs`, made from its report.

use core::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use super::lines::report_in;
use super::number::{number, range};
use crate::median::geometric_mean;
use crate::programs::{OURS, is_peer};

/// The name of the report of a machine.
const TABLE: &str = "programs";

const HEAD: &str = "Throughput of programs to that on glibc's malloc, higher is better; in \
                    brackets peak memory to glibc's, lower is better.";

/// A report: the fields that are used here.
#[derive(Deserialize)]
struct Report {
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
    peak_kib: f64,
}

/// All programs under all allocators; empty where the machine has no report.
pub(super) fn all(folder: &Path) -> anyhow::Result<String> {
    let Some(report) = report_in::<Report>(folder, TABLE)? else { return Ok(String::new()) };
    let shown: Vec<usize> = (1..report.allocators.len()).collect();
    let mut text = format!("{HEAD}\n\n| program |");
    // Writing to a string cannot fail, here and below.
    for index in &shown {
        let _ = write!(text, " {} |", report.allocators[*index]);
    }
    let _ = writeln!(text, "\n|---|{}", "--:|".repeat(shown.len()));
    for program in &report.programs {
        let cells = shown.iter().map(|index| program.cell(*index));
        let _ = writeln!(text, "| {} | {} |", program.name, cells.collect::<Vec<_>>().join(" | "));
    }
    let cells = shown.iter().map(|index| {
        let run = || report.programs.iter().filter_map(|program| program.figures(*index));
        let ratio = geometric_mean(run().map(|(ratio, _)| ratio));
        let peak = geometric_mean(run().map(|(_, peak)| peak));
        format!("{} ({})", number(ratio), number(peak))
    });
    let _ = writeln!(text, "| geometric mean | {} |\n", cells.collect::<Vec<_>>().join(" | "));
    Ok(text)
}

/// The README's rows: geometric means over the programs; empty where the machine has no report.
pub(super) fn in_readme(folder: &Path) -> anyhow::Result<String> {
    let Some(report) = report_in::<Report>(folder, TABLE)? else { return Ok(String::new()) };
    let mut text = String::new();
    for words in ["throughput to glibc, more is better", "peak memory to glibc"] {
        let is_memory = words.starts_with("peak");
        let mean = |index: usize| {
            let run = report.programs.iter().filter_map(|program| program.figures(index));
            geometric_mean(run.map(|(ratio, peak)| if is_memory { peak } else { ratio }))
        };
        let named = || report.allocators.iter().enumerate();
        let ours = named().find(|(_, name)| *name == OURS);
        let (ours, _) = ours.with_context(|| format!("{TABLE} has no {OURS}"))?;
        let peers = range(named().filter(|(_, name)| is_peer(name)).map(|(index, _)| mean(index)));
        let count = report.programs.len();
        let own = number(mean(ours));
        let _ = writeln!(text, "| {count} programs, {words} | {own} | {peers} | | `programs` |");
    }
    Ok(text)
}

impl Program {
    fn cell(&self, allocator: usize) -> String {
        let Some((ratio, peak)) = self.figures(allocator) else { return "does not run".into() };
        format!("{} ({})", number(ratio), number(peak))
    }

    /// Throughput and peak memory, both to glibc's.
    fn figures(&self, allocator: usize) -> Option<(f64, f64)> {
        let (row, glibc) = (self.rows[allocator].as_ref()?, self.rows[0].as_ref()?);
        Some((row.ratio, row.peak_kib / glibc.peak_kib))
    }
}
