//! The report as a page with plots, which the bench draws: each program is one of its tables.
//!
//! A page has throughput, processor time for the same work and peak memory to those of glibc's run
//! in the same round, as median and as percentiles of the rounds; first their geometric means, with
//! percentiles of the programs.

use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use super::allocator::{BASE, OURS};
use super::program::Sample;
use super::report::{ProgramReport, Report};
use crate::median::{geometric_mean, median, percentile};
use crate::repo;

/// What is shown of a program: the column's name, the unit, and a sample's figure.
type Column = (&'static str, &'static str, fn(&Sample) -> f64);

const COLUMNS: [Column; 3] = [
    ("throughput to glibc", "op/s to glibc", |sample| sample.per_second),
    ("processor time to glibc", "s to glibc", Sample::processor_seconds_each),
    ("peak memory to glibc", "bytes to glibc", |sample| sample.usage.peak_kib as f64),
];

/// A report of the bench, as far as a page needs it. Without a machine it is of the one that draws.
#[derive(Debug, Serialize)]
struct Tables {
    schema: &'static str,
    table: &'static str,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    workload: String,
    contender: String,
    is_ours: bool,
    unit: &'static str,
    samples: usize,
    median: f64,
    low: f64,
    high: f64,
    shown: Shown,
}

#[derive(Debug, Serialize)]
struct Shown {
    heading: String,
    column: &'static str,
    divisor: f64,
}

/// Writes the page. `folder` is for the report in between.
pub(super) fn write(
    root: &Path,
    folder: &Path,
    report: &Report,
    file: &Path,
) -> anyhow::Result<()> {
    let tables = folder.join("tables.json");
    let json = serde_json::to_string(&Tables::new(report))?;
    std::fs::write(&tables, json).with_context(|| tables.display().to_string())?;
    let mut bench = repo::cargo(root);
    bench.args(["run", "--quiet", "--release", "-p", "sheaves-bench", "--", "--from"]);
    bench.arg(&tables).arg("--html").arg(std::path::absolute(file)?);
    repo::output_of(&mut bench).map(drop)
}

impl Tables {
    fn new(report: &Report) -> Tables {
        let mut rows = Vec::new();
        let about = format!("all {} programs: geometric means", report.programs.len());
        for (index, contender) in compared(report) {
            for column in &COLUMNS {
                let programs = report.programs.iter();
                let of_rounds = programs.filter_map(|it| Some(median(ratios(it, index, column)?)));
                let of_rounds: Vec<f64> = of_rounds.collect();
                let mean = geometric_mean(of_rounds.iter().copied());
                rows.extend(Row::new("all", &about, contender, column, of_rounds, Some(mean)));
            }
        }
        for program in &report.programs {
            let about = format!("{}: {} per second", program.name, program.what);
            for (index, contender) in compared(report) {
                for column in &COLUMNS {
                    let ratios = ratios(program, index, column).unwrap_or_default();
                    rows.extend(Row::new(&program.name, &about, contender, column, ratios, None));
                }
            }
        }
        Tables { schema: "sheaves-bench/1", table: "programs", rows }
    }
}

/// The allocators but glibc, with their numbers.
fn compared(report: &Report) -> impl Iterator<Item = (usize, &str)> {
    let all = report.allocators.iter().map(String::as_str).enumerate();
    all.filter(|(_, name)| *name != BASE)
}

/// A figure of each round to glibc's; `None` where the program did not run.
fn ratios(program: &ProgramReport, allocator: usize, column: &Column) -> Option<Vec<f64>> {
    let (_, _, figure) = column;
    let (own, base) = (program.row(allocator)?, program.row(0)?);
    let pairs = own.samples.iter().zip(&base.samples);
    Some(pairs.map(|(own, base)| figure(own) / figure(base)).collect())
}

impl Row {
    /// `middle` is the median unless it is given. Without ratios there is no row.
    fn new(
        workload: &str,
        heading: &str,
        contender: &str,
        &(column, unit, _): &Column,
        mut ratios: Vec<f64>,
        middle: Option<f64>,
    ) -> Option<Row> {
        ratios.sort_by(f64::total_cmp);
        Some(Row {
            workload: workload.to_owned(),
            contender: contender.to_owned(),
            is_ours: contender == OURS,
            unit,
            samples: ratios.len(),
            low: percentile(&ratios, 0.1)?,
            high: percentile(&ratios, 0.9)?,
            shown: Shown { heading: heading.to_owned(), column, divisor: 1.0 },
            median: middle.unwrap_or_else(|| median(ratios)),
        })
    }
}

#[cfg(test)]
#[path = "../../tests/unit/programs_page.rs"]
mod tests;
