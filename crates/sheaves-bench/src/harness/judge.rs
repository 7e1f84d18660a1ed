//! Compares the figures of a row.
//!
//! A bar is a ratio of medians, ours to another contender of the same row, or a figure that is held
//! against a number. Ratios are also taken round by round, for the report.

use serde_json::Value;

use super::{Judgement, Ratio, Report, paired_ratio};

/// A contender under its common name, and its figures in one row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entrant<'a> {
    pub(crate) name: &'a str,
    pub(crate) series: &'a [f64],
    pub(crate) median: f64,
}

/// Compares the figures of one row and adds the results to the report.
///
/// All functions that name a contender do nothing where it did not take part.
pub(crate) struct Judge<'a> {
    pub(crate) report: &'a mut Report,
    pub(crate) workload: &'a str,
    pub(crate) field: Vec<Entrant<'a>>,
}

impl<'a> Judge<'a> {
    fn find(&self, name: &str) -> Option<Entrant<'a>> {
        self.field.iter().find(|entrant| entrant.name == name).copied()
    }

    pub(crate) fn median(&self, name: &str) -> Option<f64> {
        self.find(name).map(|entrant| entrant.median)
    }

    pub(crate) fn work(&self, name: &str) -> Option<Value> {
        self.report.row(self.workload, name)?.work.clone()
    }

    /// The fastest of these contenders that took part.
    pub(crate) fn best<'n>(&self, names: &[&'n str]) -> Option<&'n str> {
        let figures = names.iter().filter_map(|name| Some((*name, self.median(name)?)));
        figures.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name)
    }

    /// Whether the feature of peers is there and all of these peers took part. Against some of them
    /// a bar would say little: the report then tells that bars were withheld.
    pub(crate) fn has_all_peers(&mut self, names: &[&str]) -> bool {
        let has = cfg!(any(feature = "peers", feature = "peers-hardened"))
            && names.iter().all(|name| self.find(name).is_some());
        self.report.bars_withheld |= !has;
        has
    }

    /// Adds the ratio of two contenders, taken round by round.
    pub(crate) fn ratio(&mut self, of: &str, to: &str) {
        let (Some(own), Some(other)) = (self.find(of), self.find(to)) else { return };
        let summary = paired_ratio(own.series, other.series);
        self.report.ratios.push(Ratio {
            workload: self.workload.to_owned(),
            of: of.to_owned(),
            to: to.to_owned(),
            summary,
        });
    }

    /// Holds the ratio of two medians against a bar, if there is one.
    pub(crate) fn hold(&mut self, of: &str, to: &str, at_most: Option<f64>) {
        let (Some(own), Some(other)) = (self.median(of), self.median(to)) else { return };
        self.push(of, to, own / other, at_most);
    }

    /// [`Judge::ratio`] and [`Judge::hold`].
    pub(crate) fn compare(&mut self, of: &str, to: &str, at_most: Option<f64>) {
        self.ratio(of, to);
        self.hold(of, to, at_most);
    }

    /// Holds a figure against a number of what `unit` says: `1 ns`.
    pub(crate) fn limit(&mut self, of: &str, unit: &str, figure: Option<f64>, at_most: f64) {
        if let Some(figure) = figure {
            self.push(of, unit, figure, Some(at_most));
        }
    }

    fn push(&mut self, of: &str, versus: &str, ratio: f64, at_most: Option<f64>) {
        self.report.bars.push(Judgement::new(self.workload, of, versus, ratio, at_most));
    }
}

#[cfg(test)]
#[path = "../../tests/unit/harness_judge.rs"]
pub(crate) mod tests;
