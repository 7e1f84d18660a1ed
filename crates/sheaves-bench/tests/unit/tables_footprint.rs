//! Tests of `src/tables/footprint/mod.rs`.

use super::*;
use crate::harness::judge::tests::verdicts;
use crate::harness::report::tests::{figure, shown};
use crate::harness::{Entrant, Report};

fn options(few: bool, quick: bool) -> Options {
    Options { sizes: Vec::new(), threads: 2, few, quick }
}

#[test]
fn rows_are_named_by_what_the_program_does() {
    let names = |few, quick| -> Vec<String> {
        let cases = cases(&options(few, quick));
        cases.iter().flat_map(|case| &case.rows).map(|row| row.name.clone()).collect()
    };
    let all = names(false, false);
    for name in ["footprint/all/1t", "footprint-10s/day", "footprint-cpu/fork"] {
        assert!(all.contains(&name.to_owned()), "{name} is missing in {all:?}");
    }
    let quick = names(true, true);
    assert!(quick.contains(&"footprint-4s/tenth".to_owned()), "{quick:?}");
    assert!(!quick.contains(&"footprint/foreign".to_owned()), "{quick:?}");
    assert_eq!(quick.last().unwrap(), "footprint-mean/shift");
}

#[test]
fn each_contender_has_a_process_and_one_mode() {
    for case in cases(&options(false, false)) {
        let names: Vec<_> = case.contenders.iter().map(|contender| contender.family).collect();
        assert_eq!(names[0], "malloc");
        assert_eq!(names[1..], *allocators::UNSIZED);
        for contender in &case.contenders {
            assert!(contender.mode.is_some_and(|mode| mode.is_fresh) && !contender.is_mode());
        }
    }
}

/// `malloc` with that much in MiB, and peers of which the best has 100.
fn judged(own: f64, measure: &str) -> Vec<String> {
    let mut field = vec![("malloc", own * MIB as f64)];
    let peer = |(index, name): (usize, &&'static str)| (*name, ((100 + index) * MIB) as f64);
    field.extend(allocators::UNSIZED.iter().enumerate().map(peer));
    verdicts(&field, |row| compare(row, measure))
}

#[test]
fn the_peak_is_held_against_a_tenth_more_and_the_rest_against_8_mib_more() {
    if !cfg!(feature = "peers") {
        assert!(judged(1.0, "").is_empty() && judged(1.0, "-2s").is_empty());
        return;
    }
    assert_eq!([judged(109.9, ""), judged(110.1, "")], [["glibc PASS"], ["glibc MISS"]]);
    for measure in ["-2s", "-4s", "-10s"] {
        let both = [judged(108.0, measure), judged(108.1, measure)];
        assert_eq!(both, [["glibc + 8 MiB PASS"], ["glibc + 8 MiB MISS"]], "{measure}");
    }
    for measure in ["-0s", "-trimmed", "-cpu"] {
        assert!(judged(1e6, measure).is_empty(), "{measure}");
    }
}

#[test]
fn a_peer_that_is_slow_is_no_peer_where_sizes_shift() {
    if !cfg!(feature = "peers") {
        return;
    }
    // The best mean is that of a peer with less than half of the rate of the fastest, ours.
    let rate = |name: &str| match name {
        "malloc" => 10e6,
        "glibc" => 4.9e6,
        _ => 5.1e6,
    };
    let mean = |name: &str| match name {
        "malloc" => 179.0,
        "glibc" => 130.0,
        "jemalloc" => 163.0,
        _ => 200.0,
    };
    let mut report = Report::new("footprint");
    let names: Vec<&str> = ["malloc"].into_iter().chain(allocators::UNSIZED.to_vec()).collect();
    for name in &names {
        report.rows.push(figure("footprint/shift", name, rate(name), shown("shift", 1)));
    }
    let entrant =
        |name: &&'static str| Entrant { name, series: &[], median: mean(name) * MIB as f64 };
    let field = names.iter().map(entrant).collect();
    let mut row = Judge { report: &mut report, workload: "footprint-mean/shift", field };
    compare_shift(&mut row, "-mean");
    let bars: Vec<_> = report.bars.iter().map(|bar| (&bar.versus[..], bar.ratio)).collect();
    let expected = [("jemalloc", 179.0 / 163.0), ("128 MiB in use", 179.0 / 128.0)];
    assert_eq!(bars.len(), 2);
    for (bar, expected) in bars.iter().zip(expected) {
        assert!(bar.0 == expected.0 && (bar.1 - expected.1).abs() < 1e-9, "{bars:?}");
    }
    assert!(report.bars.iter().all(|bar| bar.verdict.as_deref() == Some("PASS")));
}
