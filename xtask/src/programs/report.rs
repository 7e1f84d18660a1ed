//! The report of programs: a table for each, and how allocators compare over all.

use core::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::allocator::{AGAIN, Allocator};
use super::program::Sample;
use crate::median::{geometric_mean, median};

/// The samples of one program, by allocator; `None` where the program did not run.
pub(super) struct Outcome {
    samples: Vec<Option<Vec<Sample>>>,
}

impl Outcome {
    /// Nothing yet.
    #[must_use]
    pub(super) fn new(allocators: usize) -> Outcome {
        Outcome { samples: vec![Some(Vec::new()); allocators] }
    }

    /// Adds a sample of the allocator with that number.
    pub(super) fn add(&mut self, allocator: usize, sample: Sample) {
        self.samples[allocator].get_or_insert_default().push(sample);
    }

    /// The program does not run on this allocator.
    pub(super) fn leave_out(&mut self, allocator: usize) {
        self.samples[allocator] = None;
    }

    pub(super) fn is_left_out(&self, allocator: usize) -> bool {
        self.samples[allocator].is_none()
    }
}

/// All results, also as JSON.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Report {
    pub(super) allocators: Vec<String>,
    pub(super) programs: Vec<ProgramReport>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(super) struct ProgramReport {
    pub(super) name: String,
    pub(super) what: String,
    /// By allocator; `None` where the program did not run.
    rows: Vec<Option<Row>>,
}

/// One program under one allocator: medians.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Row {
    per_second: f64,
    /// Throughput over that of glibc in the same round.
    pub(super) ratio: f64,
    ratio_min: f64,
    ratio_max: f64,
    peak_kib: f64,
    faults: f64,
    processor_seconds: f64,
    pub(super) samples: Vec<Sample>,
}

impl Report {
    /// An empty report.
    #[must_use]
    pub(super) fn new(allocators: &[Allocator]) -> Report {
        let allocators = allocators.iter().map(|allocator| allocator.name.to_owned()).collect();
        Report { allocators, programs: Vec::new() }
    }

    /// Adds a program and returns its table.
    pub(super) fn add(&mut self, name: &str, what: &str, outcome: Outcome) -> String {
        let base = outcome.samples[0].iter().flatten();
        let base: Vec<f64> = base.map(|sample| sample.per_second).collect();
        let rows = outcome.samples.into_iter().map(|it| it.map(|samples| Row::new(samples, &base)));
        let rows: Vec<Option<Row>> = rows.collect();
        let mut text = format!("\n{name}: {what} per second\n");
        text.push_str(
            "allocator     per second   to glibc  (least, most)   peak MiB    faults   cpu s\n",
        );
        for (allocator, row) in self.allocators.iter().zip(&rows) {
            let Some(row) = row else {
                let _ = writeln!(text, "{allocator:<12}     did not run");
                continue;
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{allocator:<12} {:>11.4} {:>10.3}  {:>5.2} {:>5.2}  {:>10.1} {:>9.0} {:>7.2}",
                row.per_second,
                row.ratio,
                row.ratio_min,
                row.ratio_max,
                row.peak_kib / 1024.0,
                row.faults,
                row.processor_seconds,
            );
        }
        self.programs.push(ProgramReport { name: name.to_owned(), what: what.to_owned(), rows });
        text
    }

    /// The geometric means over all programs, for each allocator over those that run on it.
    #[must_use]
    pub(super) fn summary(&self) -> String {
        let mut text = format!("\nall {} programs: geometric means\n", self.programs.len());
        text.push_str(
            "allocator    throughput to glibc   peak to glibc   programs below 0.95 of the best\n",
        );
        for (index, allocator) in self.allocators.iter().enumerate() {
            let run = self.programs.iter();
            let run: Vec<_> = run.filter_map(|it| it.row(index).map(|row| (it, row))).collect();
            let ratio = geometric_mean(run.iter().map(|(_, row)| row.ratio));
            let peaks = run.iter().filter_map(|(it, row)| Some(row.peak_kib / it.row(0)?.peak_kib));
            let peak = geometric_mean(peaks);
            let behind = run.iter().filter(|(it, row)| row.ratio < 0.95 * self.best(it));
            let behind: Vec<_> = behind.map(|(it, _)| it.name.as_str()).collect();
            let _ =
                writeln!(text, "{allocator:<12} {ratio:>20.3} {peak:>15.2}   {}", behind.join(" "));
        }
        text
    }

    /// The highest ratio to glibc of one program.
    fn best(&self, program: &ProgramReport) -> f64 {
        let rows = self.allocators.iter().zip(&program.rows).filter(|(name, _)| **name != AGAIN);
        rows.filter_map(|(_, row)| Some(row.as_ref()?.ratio)).fold(0.0, f64::max)
    }
}

impl ProgramReport {
    pub(super) fn row(&self, allocator: usize) -> Option<&Row> {
        self.rows[allocator].as_ref()
    }
}

impl Row {
    fn new(samples: Vec<Sample>, base: &[f64]) -> Row {
        let of = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
        let ratios: Vec<f64> =
            samples.iter().zip(base).map(|(sample, base)| sample.per_second / base).collect();
        Row {
            per_second: of(|sample| sample.per_second),
            ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratio_max: ratios.iter().copied().fold(0.0, f64::max),
            ratio: median(ratios),
            peak_kib: of(|sample| sample.usage.peak_kib as f64),
            faults: of(|sample| sample.usage.faults as f64),
            processor_seconds: of(|sample| sample.usage.processor_seconds),
            samples,
        }
    }
}
