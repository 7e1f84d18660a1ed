//! The report of programs: a table for each, and how allocators compare over all.

use core::fmt::Write as _;

use serde::Serialize;

use super::allocator::{AGAIN, Allocator};
use super::program::Sample;
use crate::median::median;

/// The samples of one program, by allocator.
pub(super) struct Outcome {
    samples: Vec<Vec<Sample>>,
}

impl Outcome {
    /// Nothing yet.
    #[must_use]
    pub(super) fn new(allocators: usize) -> Outcome {
        Outcome { samples: vec![Vec::new(); allocators] }
    }

    /// Adds a sample of the allocator with that number.
    pub(super) fn add(&mut self, allocator: usize, sample: Sample) {
        self.samples[allocator].push(sample);
    }
}

/// All results, also as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    allocators: Vec<&'static str>,
    programs: Vec<ProgramReport>,
}

#[derive(Debug, Serialize)]
struct ProgramReport {
    name: &'static str,
    what: &'static str,
    rows: Vec<Row>,
}

/// One program under one allocator: medians.
#[derive(Debug, Serialize)]
struct Row {
    per_second: f64,
    /// Throughput over that of glibc in the same round.
    ratio: f64,
    ratio_min: f64,
    ratio_max: f64,
    peak_kib: f64,
    faults: f64,
    processor_seconds: f64,
    samples: Vec<Sample>,
}

impl Report {
    /// An empty report.
    #[must_use]
    pub(super) fn new(allocators: &[Allocator]) -> Report {
        let allocators = allocators.iter().map(|allocator| allocator.name).collect();
        Report { allocators, programs: Vec::new() }
    }

    /// Adds a program and returns its table.
    pub(super) fn add(
        &mut self,
        name: &'static str,
        what: &'static str,
        outcome: Outcome,
    ) -> String {
        let base: Vec<f64> = outcome.samples[0].iter().map(|sample| sample.per_second).collect();
        let rows: Vec<Row> =
            outcome.samples.into_iter().map(|samples| Row::new(samples, &base)).collect();
        let mut text = format!("\n{name}: {what} per second\n");
        text.push_str(
            "allocator     per second   to glibc  (least, most)   peak MiB    faults   cpu s\n",
        );
        for (allocator, row) in self.allocators.iter().zip(&rows) {
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
        self.programs.push(ProgramReport { name, what, rows });
        text
    }

    /// The geometric means over all programs.
    #[must_use]
    pub(super) fn summary(&self) -> String {
        let mut text = format!("\nall {} programs: geometric means\n", self.programs.len());
        text.push_str(
            "allocator    throughput to glibc   peak to glibc   programs below 0.95 of the best\n",
        );
        for (index, allocator) in self.allocators.iter().enumerate() {
            let mean = |of: &dyn Fn(&ProgramReport) -> f64| {
                let logarithms: f64 = self.programs.iter().map(|program| of(program).ln()).sum();
                (logarithms / self.programs.len() as f64).exp()
            };
            let ratio = mean(&|program| program.rows[index].ratio);
            let peak = mean(&|program| program.rows[index].peak_kib / program.rows[0].peak_kib);
            let behind: Vec<_> = self
                .programs
                .iter()
                .filter(|program| program.rows[index].ratio < 0.95 * self.best(program))
                .map(|program| program.name)
                .collect();
            let _ =
                writeln!(text, "{allocator:<12} {ratio:>20.3} {peak:>15.2}   {}", behind.join(" "));
        }
        text
    }

    /// The highest ratio to glibc of one program.
    fn best(&self, program: &ProgramReport) -> f64 {
        let rows = self.allocators.iter().zip(&program.rows).filter(|(name, _)| **name != AGAIN);
        rows.map(|(_, row)| row.ratio).fold(0.0, f64::max)
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
