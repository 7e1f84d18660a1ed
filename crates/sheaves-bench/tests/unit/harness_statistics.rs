//! Tests of `src/harness/statistics.rs`.

use crate::harness::statistics::*;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn percentiles_interpolate() {
    let sorted = [1.0, 2.0, 3.0, 4.0];
    assert!(close(percentile(&sorted, 0.0), 1.0));
    assert!(close(percentile(&sorted, 0.5), 2.5));
    assert!(close(percentile(&sorted, 1.0), 4.0));
    assert!(close(percentile(&[], 0.5), 0.0));
    assert!(close(percentile(&[7.0], 0.9), 7.0));
}

#[test]
fn a_summary_does_not_depend_on_the_order() {
    let up: Vec<f64> = (0..=100).map(f64::from).collect();
    let down: Vec<f64> = up.iter().rev().copied().collect();
    assert_eq!(summarize(&up), summarize(&down));
    let summary = summarize(&down);
    assert_eq!(summary.samples, 101);
    assert!(close(summary.median, 50.0));
    assert!(close(summary.low, 10.0));
    assert!(close(summary.high, 90.0));
}

#[test]
fn one_wild_sample_does_not_move_the_median() {
    assert!(close(summarize(&[2.0, 2.0, 2.0, 2.0, 1e9]).median, 2.0));
}

#[test]
fn ratios_are_taken_round_by_round() {
    // Both contenders were slowed down together in the second round.
    let ratio = paired_ratio(&[1.0, 100.0, 1.0], &[2.0, 200.0, 2.0]);
    assert!(close(ratio.median, 0.5) && close(ratio.low, 0.5) && close(ratio.high, 0.5));
    assert_eq!(paired_ratio(&[1.0], &[0.0]).samples, 0);
}

#[test]
fn means_and_deviations() {
    assert!(close(mean(&[1.0, 2.0, 6.0]), 3.0) && close(mean(&[]), 0.0));
    assert!(close(standard_deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), 2.0));
}

#[test]
fn geometric_means() {
    assert!(close(geometric_mean(&[0.5, 2.0]).unwrap(), 1.0));
    assert_eq!(geometric_mean(&[]), None);
    assert_eq!(geometric_mean(&[0.0, 1.0]), None);
}
