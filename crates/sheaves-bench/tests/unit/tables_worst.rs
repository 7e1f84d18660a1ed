//! Tests of `src/tables/worst/mod.rs`.

#[path = "tables_worst_heap.rs"]
mod heap;
#[path = "tables_worst_times.rs"]
mod times;

use super::*;
use crate::harness::Shown;
use crate::harness::judge::tests::verdicts;
use crate::harness::report::tests::{figure, shown};

fn cases_of(quick: bool) -> Vec<Case> {
    cases(&Options { sizes: Vec::new(), threads: 2, few: false, quick })
}

#[test]
fn rows_are_named_by_call_and_heap() {
    let cases = cases_of(true);
    let names: Vec<_> = cases.iter().flat_map(|case| &case.rows).map(|row| &*row.name).collect();
    let calls = ["malloc", "free", "calloc", "realloc", "statistics", "free_rcu"];
    let beside = ["malloc-beside-trim", "malloc-without-trim", "fork-beside-trim"];
    for call in calls.iter().chain(&beside) {
        for (suffix, mib) in [("", 64), ("-p9999", 256), ("-p99", 64), ("-p50", 64)] {
            let name = format!("worst{suffix}/{call}/{mib}-mib");
            assert!(names.contains(&&*name), "{name} is missing in {names:?}");
        }
    }
    for name in ["worst/share/64-mib", "worst/map-insert/10000", "worst/map-clear/1000000"] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    let distinct: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
}

#[test]
fn heaps_fit_into_memory() {
    let most = available_bytes().map_or(usize::MAX, |bytes| bytes >> 21);
    let cases = cases_of(false);
    let is_there = |mib| cases.iter().any(|case| case.name() == format!("worst/malloc/{mib}-mib"));
    for mib in HEAPS_MIB {
        assert_eq!(is_there(mib), mib <= most, "{mib} of {most}");
    }
}

#[test]
fn peers_without_a_trim_are_left_out_beside_one() {
    use crate::harness::Part;
    let case = beside(64, Measured::Malloc);
    for contender in case.contenders {
        let is_left_out = matches!(contender.part, Part::LeftOut(_));
        assert_eq!(is_left_out, WITHOUT_TRIM.contains(&contender.family), "{}", contender.family);
    }
}

#[test]
fn statistics_are_held_against_a_millisecond() {
    let judged = |nanoseconds| {
        verdicts(&[("malloc", nanoseconds)], |row| compare(row, "statistics", &[], ""))
    };
    assert_eq!([judged(0.9e6), judged(1.1e6)].concat(), ["1 us PASS", "1 us MISS"]);
}

fn report_of(figures: &[(&str, f64)]) -> Report {
    let mut report = Report::new("worst");
    for (workload, median) in figures {
        let shown: Shown = shown("worst", 64);
        report.rows.push(figure(workload, "malloc", *median, shown.clone()));
        // Others have no bars.
        report.rows.push(figure(workload, "glibc", 1e9 * median, shown));
    }
    report
}

fn finished(figures: &[(&str, f64)]) -> Vec<String> {
    let mut report = report_of(figures);
    finish(&mut report);
    let line = |bar: Judgement| format!("{} {}", bar.workload, bar.verdict.unwrap());
    report.bars.into_iter().map(line).collect()
}

#[test]
fn growth_is_judged_from_the_smallest_heap_to_the_largest() {
    let heaps = |longest: f64, p9999: f64| {
        finished(&[
            ("worst/free/64-mib", 10_000.0),
            ("worst-p9999/free/64-mib", 1_000.0),
            ("worst/free/1024-mib", 900_000.0),
            ("worst-p9999/free/1024-mib", 9_000.0),
            ("worst/free/4096-mib", longest),
            ("worst-p9999/free/4096-mib", p9999),
        ])
    };
    let judged = heaps(109_000.0, 1_500.0);
    assert_eq!(judged, ["worst/free/growth PASS", "worst-p9999/free/growth PASS"]);
    let judged = heaps(111_000.0, 1_510.0);
    assert_eq!(judged, ["worst/free/growth MISS", "worst-p9999/free/growth MISS"]);
    // One heap does not grow.
    assert_eq!(finished(&[("worst/free/64-mib", 1.0)]), [""; 0]);
    // `free_rcu` is another call than `free`.
    let rcu = finished(&[("worst/free_rcu/64-mib", 1.0), ("worst/free_rcu/1024-mib", 2.0)]);
    assert_eq!(rcu, ["worst/free_rcu/growth PASS"]);
}

#[test]
fn what_a_trim_adds_is_judged_at_each_heap() {
    let judged = finished(&[
        ("worst/malloc-beside-trim/64-mib", 1_100_000.0),
        ("worst/malloc-without-trim/64-mib", 200_000.0),
        ("worst/fork-beside-trim/64-mib", 3_100_000.0),
        ("worst/fork-without-trim/64-mib", 1_000_000.0),
    ]);
    let expected =
        ["worst/malloc-beside-trim/64-mib/more PASS", "worst/fork-beside-trim/64-mib/more MISS"];
    assert_eq!(judged, expected);
}
