//! Tests of `src/tables/synchronize/mod.rs`.

#[path = "tables_synchronize_contenders.rs"]
mod contenders;

use core::time::Duration;

use super::*;
use crate::harness::judge::tests::verdicts;

fn cases(threads: usize, few: bool) -> Vec<Case> {
    (TABLE.cases)(&Options { sizes: Vec::new(), threads, few, quick: few })
}

#[test]
fn rows_are_named_by_workload_and_measure() {
    let rows: Vec<_> =
        cases(REGISTERED_MAX, false).into_iter().flat_map(|case| case.rows).collect();
    for name in ["10x1000", "10x1000+flood-worst", "waiters-p99/500", "registered/10000"] {
        assert!(rows.iter().any(|row| row.name == name), "{name} is missing");
    }
}

#[test]
fn threads_are_summed_up() {
    let start = Instant::now();
    let worked = |us: u64, calls: [u64; 2]| Worked {
        start,
        end: start + Duration::from_micros(us),
        calls: calls.to_vec(),
    };
    let values = summarize(&[worked(9, [1000, 3000]), worked(11, [5000, 7000])]);
    assert_eq!(values, [4000.0, 4000.0, 6940.0, 7000.0, 11_000.0, 11_000.0, 10.0, 2000.0]);
}

#[test]
fn few_are_registered_where_few_are_asked_for() {
    let names = |threads, few| -> Vec<String> {
        let cases = cases(threads, few);
        let names = cases.iter().map(|case| case.name().to_owned());
        names.filter(|name| name.starts_with("registered")).collect()
    };
    assert_eq!(names(50, false), ["registered/10", "registered/50"]);
    assert_eq!(names(10_000, true), ["registered/10000"]);
}

#[test]
fn waits_are_held_against_others_and_the_clock() {
    let judged =
        |workload, measure, field: &[_]| verdicts(field, |row| compare(row, workload, measure));
    let (flood, pair) = (Workload::Flood(Queue::Older), [("direct", 1000.0), ("callback", 2300.0)]);
    assert_eq!(judged(flood, "", &pair), ["callback PASS"]);
    assert_eq!(judged(flood, "-worst", &pair), ["callback MISS"]);
    assert!(judged(Workload::Ten, "", &pair).is_empty());
    let many = Workload::Registered(REGISTERED_MAX);
    assert_eq!(judged(many, "", &[("direct", 51_000.0)]), ["1 us MISS"]);
    assert_eq!(judged(Workload::Long, "-max", &[("direct", 99e6)]), ["1 ms PASS"]);
    let bp = [("direct", 5.0), ("liburcu-bp", 10.0)];
    assert_eq!(judged(Workload::Waiters(500), "-total", &bp), ["liburcu-bp PASS"]);
    assert!(judged(Workload::Waiters(64), "-total", &bp).is_empty());
    assert_eq!(judged(Workload::Ten, "-total", &bp), ["liburcu-bp MISS"]);
    assert!(judged(Workload::Alone, "", &bp).is_empty());
}
