//! Tests of `src/programs/report.rs`.

use super::super::usage::Usage;
use super::*;

fn sample(per_second: f64, processor_seconds: f64) -> Sample {
    Sample::rate(per_second, Usage { seconds: 2.0, processor_seconds, ..Usage::default() })
}

/// glibc, glibc again and another one, which does half as much in the same processor time.
fn outcome() -> Outcome {
    let mut outcome = Outcome::new(3);
    for round in 1..=9 {
        let base = 100.0 * f64::from(round);
        outcome.add(0, sample(base, 1.0));
        outcome.add(1, sample(base * 1.03, 1.03));
        outcome.add(2, sample(base / 2.0, 1.0));
    }
    outcome
}

#[test]
fn noise_is_the_second_run_of_glibc_against_the_first() {
    let noise = outcome().noise(1).unwrap();
    assert!((noise - 0.03).abs() < 1e-9, "{noise}");
}

#[test]
fn half_the_work_in_the_same_processor_time_costs_twice() {
    let names = ["glibc", "glibc again", "other"];
    let allocators = names.map(|name| Allocator { name, preload: Default::default() });
    let mut report = Report::new(&allocators);
    report.add("program", "work", outcome());
    let row = report.programs[0].row(2).unwrap();
    assert!((row.processor_ratio - 2.0).abs() < 1e-9 && (row.ratio - 0.5).abs() < 1e-9);
    let again = report.programs[0].row(1).unwrap();
    assert!((again.processor_ratio - 1.0).abs() < 1e-9);
    assert!((again.ratio_low - 1.03).abs() < 1e-9 && (again.ratio_high - 1.03).abs() < 1e-9);
}
