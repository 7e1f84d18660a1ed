//! Tests of `src/harness/judge.rs`.

use super::*;

/// What `compare` holds these medians against, and what comes of it: `glibc PASS`.
pub(crate) fn verdicts(
    field: &[(&'static str, f64)],
    compare: impl FnOnce(&mut Judge<'_>),
) -> Vec<String> {
    let mut report = Report::new("row");
    let entrant =
        |(name, median): &(&'static str, f64)| Entrant { name, series: &[1.0], median: *median };
    let field = field.iter().map(entrant).collect();
    compare(&mut Judge { report: &mut report, workload: "row", field });
    let judged = |bar: Judgement| Some(format!("{} {}", bar.versus, bar.verdict?));
    report.bars.into_iter().filter_map(judged).collect()
}

#[test]
fn a_verdict_needs_a_bar() {
    let judge = |ratio, bar| Judgement::new("pair/64", "cache", "glibc", ratio, bar).verdict;
    assert_eq!(judge(0.75, Some(0.75)).as_deref(), Some("PASS"));
    assert_eq!(judge(0.76, Some(0.75)).as_deref(), Some("MISS"));
    assert_eq!(judge(f64::NAN, Some(0.75)).as_deref(), Some("MISS"));
    assert_eq!(judge(0.5, None), None);
}
