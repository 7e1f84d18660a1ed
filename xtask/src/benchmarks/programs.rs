//! The figures of `cargo xtask programs`, made from its report.

use core::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use super::number::number;

/// The report's file in the folder of a machine.
pub(super) const FILE: &str = "programs.json";
/// The allocator whose figures these are.
const OURS: &str = "sheaves";
/// Allocators that are no peers: what all are compared with, and the noise of that.
const NO_PEERS: [&str; 3] = ["glibc", "glibc again", OURS];
/// The programs that the README shows.
const IN_README: [&str; 3] = ["mariadb-rw", "redis-lpush", "node-json"];

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
    /// By allocator.
    rows: Vec<Row>,
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
    let mut text =
        "Throughput of programs to that on glibc's malloc, higher is better; in brackets \
                    peak memory to glibc's, lower is better.\n\n| program |"
            .to_owned();
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
        let ratio = report.mean(|program| program.rows[*index].ratio);
        let peak = report.mean(|program| program.peak(*index));
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
    let mut text =
        "| program, under `sheaves run` | throughput to glibc | best other | peak memory \
                    to glibc |\n|---|--:|--:|--:|\n"
            .to_owned();
    for program in report.programs.iter().filter(|it| IN_README.contains(&it.name.as_str())) {
        let peers = report.allocators.iter().zip(&program.rows);
        let peers = peers.filter(|(name, _)| !NO_PEERS.contains(&name.as_str()));
        let best = peers.max_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
        let (name, best) = best.with_context(|| format!("{FILE} has no peers"))?;
        let (ratio, peak) = (number(program.rows[ours].ratio), number(program.peak(ours)));
        let best = number(best.ratio);
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

impl Report {
    fn mean(&self, of: impl Fn(&Program) -> f64) -> f64 {
        let logarithms: f64 = self.programs.iter().map(|program| of(program).ln()).sum();
        (logarithms / self.programs.len() as f64).exp()
    }
}

impl Program {
    fn cell(&self, allocator: usize) -> String {
        format!("{} ({})", number(self.rows[allocator].ratio), number(self.peak(allocator)))
    }

    fn peak(&self, allocator: usize) -> f64 {
        self.rows[allocator].peak_kib / self.rows[0].peak_kib
    }
}
