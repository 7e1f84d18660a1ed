//! What the tests of reports share.

use super::Report;
use crate::contender::Kind;

/// Adds a row with these medians.
pub(super) fn add(report: &mut Report, row: &str, figures: &[(Kind, f64)]) {
    let kinds: Vec<Kind> = figures.iter().map(|(kind, _)| *kind).collect();
    let series = figures.iter().map(|(_, figure)| vec![vec![*figure; 3]]).collect();
    report.add(&[row.to_owned()], &kinds, &series);
}

/// Who was held against what, and what came out.
pub(super) fn verdicts(report: &Report) -> Vec<(&str, &str, &str)> {
    let judged = report.bars.iter().filter_map(|bar| Some((bar, bar.verdict.as_deref()?)));
    judged.map(|(bar, verdict)| (&bar.contender[..], &bar.versus[..], verdict)).collect()
}
