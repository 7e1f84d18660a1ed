//! The figures of `cargo xtask programs`, made from its report.

use core::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use super::number::number;
use crate::median::geometric_mean;
use crate::programs::{OURS, is_peer};

/// The report's file in the folder of a machine.
const FILE: &str = "programs.json";
/// The programs that the README shows.
const IN_README: [&str; 3] = ["mariadb-rw", "redis-lpush", "node-json"];

const HEAD: &str = "Throughput of programs to that on glibc's malloc, higher is better; in \
                    brackets peak memory to glibc's, lower is better.";
const README_HEAD: &str = "\
| program, under `sheaves run` | throughput to glibc | best other | peak memory to glibc |
|---|--:|--:|--:|
";

/// A report: the fields that are used here.
#[derive(Deserialize)]
struct Report {
    allocators: Vec<String>,
    programs: Vec<Program>,
}

#[derive(Deserialize)]
struct Program {
    name: String,
    what: String,
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
    let Some(report) = read(folder)? else { return Ok(String::new()) };
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

/// The README's programs; empty where the machine has no report.
pub(super) fn in_readme(folder: &Path) -> anyhow::Result<String> {
    let Some(report) = read(folder)? else { return Ok(String::new()) };
    let ours = report.allocators.iter().position(|name| name == OURS);
    let ours = ours.with_context(|| format!("{FILE} has no {OURS}"))?;
    let mut text = README_HEAD.to_owned();
    for program in report.programs.iter().filter(|it| IN_README.contains(&it.name.as_str())) {
        let peers = report.allocators.iter().enumerate();
        let peers = peers.filter(|(_, name)| is_peer(name));
        let peers = peers.filter_map(|(index, name)| Some((name, program.figures(index)?.0)));
        let best = peers.max_by(|a, b| a.1.total_cmp(&b.1));
        let (name, best) = best.with_context(|| format!("{FILE} has no peers"))?;
        let figures = program.figures(ours);
        let (ratio, peak) = figures.with_context(|| format!("{FILE} has no row of {OURS}"))?;
        let [ratio, best, peak] = [ratio, best, peak].map(number);
        let Program { name: program, what, .. } = program;
        let _ = writeln!(text, "| {program}: {what} | {ratio} | {name} {best} | {peak} |");
    }
    Ok(text + "\n")
}

fn read(folder: &Path) -> anyhow::Result<Option<Report>> {
    let file = folder.join(FILE);
    if !file.exists() {
        return Ok(None);
    }
    let context = || file.display().to_string();
    let json = fs::read_to_string(&file).with_context(context)?;
    serde_json::from_str(&json).map(Some).with_context(context)
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
