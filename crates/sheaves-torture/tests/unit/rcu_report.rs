//! Tests of private items of `rcu/report`.

use super::*;

/// The report of a run in which nothing happened.
fn idle(seconds: f64, stuck: &[String]) -> Report {
    Report::new(seconds, statistics(), None, stuck)
}

#[test]
fn run_without_events_missed_them_and_did_not_fail() {
    let report = idle(SECONDS_MIN, &[]);
    assert!(report.failures.is_empty() && !report.passed());
    for kind in UPDATES.iter().chain(&SECTIONS) {
        assert!(report.missed.iter().any(|line| line.contains(kind)), "{kind}");
    }
    if report.order == "membarrier" {
        assert!(report.missed.iter().any(|line| line.contains("without a membarrier")));
    }
}

#[test]
fn short_and_failed_runs_miss_nothing() {
    assert!(idle(0.5, &[]).passed());
    let failed = idle(SECONDS_MIN, &["reads".into()]);
    assert!(failed.missed.is_empty() && failed.failures.len() == 1);
}
