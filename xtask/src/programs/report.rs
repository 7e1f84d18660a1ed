//! The report of programs: a table for each, and how allocators compare over all.
//!
//! Ratios are to glibc's run in the same round. Processor time is that of the program and of the
//! kernel for the same work: on a machine that others use, too, it says more than throughput.

use core::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::allocator::{AGAIN, Allocator};
use super::program::Sample;
use crate::median::{geometric_mean, median, percentile};

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

    /// How much the second run of [`AGAIN`], the allocator with that number, differs from the first
    /// one in throughput: the noise.
    pub(super) fn noise(&self, again: usize) -> Option<f64> {
        let (base, again) = (self.samples[0].as_ref()?, self.samples[again].as_ref()?);
        let ratios = base.iter().zip(again).map(|(base, again)| again.per_second / base.per_second);
        Some((median(ratios.collect()) - 1.0).abs())
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
    /// Its 10th and 90th percentile; the least and the greatest in older reports.
    #[serde(alias = "ratio_min")]
    ratio_low: f64,
    #[serde(alias = "ratio_max")]
    ratio_high: f64,
    peak_kib: f64,
    faults: f64,
    processor_seconds: f64,
    /// Processor time for the same work, over that of glibc in the same round.
    #[serde(default)]
    processor_ratio: f64,
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
        let base = outcome.samples[0].clone().unwrap_or_default();
        let rows = outcome.samples.into_iter().map(|it| it.map(|samples| Row::new(samples, &base)));
        let rows: Vec<Option<Row>> = rows.collect();
        let mut text = format!("\n{name}: {what} per second; to glibc, 10th and 90th percentile\n");
        text.push_str(
            "allocator     per second   to glibc  (low, high)    cpu time   peak MiB    faults\n",
        );
        for (allocator, row) in self.allocators.iter().zip(&rows) {
            let Some(row) = row else {
                let _ = writeln!(text, "{allocator:<12}     did not run");
                continue;
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{allocator:<12} {:>11.4} {:>10.3}  {:>5.2} {:>5.2}  {:>10.3} {:>10.1} {:>9.0}",
                row.per_second,
                row.ratio,
                row.ratio_low,
                row.ratio_high,
                row.processor_ratio,
                row.peak_kib / 1024.0,
                row.faults,
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
            "allocator    throughput to glibc   cpu time   peak   below 0.95 of the best\n",
        );
        for (index, allocator) in self.allocators.iter().enumerate() {
            let run = self.programs.iter();
            let run: Vec<_> = run.filter_map(|it| it.row(index).map(|row| (it, row))).collect();
            let ratio = geometric_mean(run.iter().map(|(_, row)| row.ratio));
            let time = geometric_mean(run.iter().map(|(_, row)| row.processor_ratio));
            let peaks = run.iter().filter_map(|(it, row)| Some(row.peak_kib / it.row(0)?.peak_kib));
            let peak = geometric_mean(peaks);
            let behind = run.iter().filter(|(it, row)| row.ratio < 0.95 * self.best(it));
            let behind: Vec<_> = behind.map(|(it, _)| it.name.as_str()).collect();
            let behind = behind.join(" ");
            let _ =
                writeln!(text, "{allocator:<12} {ratio:>19.3} {time:>10.3} {peak:>6.2}   {behind}");
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
    fn new(samples: Vec<Sample>, base: &[Sample]) -> Row {
        let of = |value: fn(&Sample) -> f64| median(samples.iter().map(value).collect());
        let to_base = |value: fn(&Sample) -> f64| {
            let pairs = samples.iter().zip(base);
            let mut ratios: Vec<f64> = pairs.map(|(own, base)| value(own) / value(base)).collect();
            ratios.sort_by(f64::total_cmp);
            ratios
        };
        let ratios = to_base(|sample| sample.per_second);
        Row {
            per_second: of(|sample| sample.per_second),
            ratio_low: percentile(&ratios, 0.1).unwrap_or(f64::NAN),
            ratio_high: percentile(&ratios, 0.9).unwrap_or(f64::NAN),
            ratio: median(ratios),
            peak_kib: of(|sample| sample.usage.peak_kib as f64),
            faults: of(|sample| sample.usage.faults as f64),
            processor_seconds: of(|sample| sample.usage.processor_seconds),
            processor_ratio: median(to_base(Sample::processor_seconds_each)),
            samples,
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/programs_report.rs"]
mod tests;
