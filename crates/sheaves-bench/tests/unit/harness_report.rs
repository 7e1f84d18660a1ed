//! Tests of `src/harness/report.rs`.

#[path = "harness_statistics.rs"]
mod statistics;

use super::*;

/// A row with these figures, for tests.
pub(crate) fn figure(workload: &str, contender: &str, median: f64, shown: Shown) -> Figure {
    Figure {
        workload: workload.to_owned(),
        contender: contender.to_owned(),
        unit: "ns/op".to_owned(),
        summary: Summary { samples: 1, median, low: median, high: median },
        shown,
        work: None,
        is_mode: false,
        is_ours: false,
    }
}

pub(crate) fn shown(heading: &str, size: usize) -> Shown {
    let heading = heading.to_owned();
    Shown { heading, column: size.to_string(), size: Some(size), size_unit: None, divisor: 1.0 }
}

#[test]
fn the_json_has_exactly_the_documented_fields() {
    let mut report = Report::new("pair");
    report.rows.push(figure("pair/64", "cache", 2.0, shown("pair", 64)));
    let summary = report.rows[0].summary;
    let (of, to) = ("cache".to_owned(), "glibc".to_owned());
    report.ratios.push(Ratio { workload: "pair/64".to_owned(), of, to, summary });
    report.bars.push(Judgement::new("pair/64", "cache", "glibc", 0.5, Some(0.75)));
    let json: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(keys(&json), ["bars", "machine", "ratios", "rows", "schema", "table"]);
    assert_eq!(
        keys(&json["rows"][0]),
        ["contender", "high", "low", "median", "samples", "shown", "unit", "workload"]
    );
    assert_eq!(keys(&json["rows"][0]["shown"]), ["column", "divisor", "heading", "size"]);
    assert_eq!(
        keys(&json["ratios"][0]),
        ["high", "low", "median", "of", "samples", "to", "workload"]
    );
    assert_eq!(
        keys(&json["bars"][0]),
        ["at_most", "contender", "ratio", "verdict", "versus", "workload"]
    );
    assert_eq!(serde_json::from_value::<Report>(json).unwrap(), report);
}

#[test]
fn a_reason_is_told_once_for_all_its_cases() {
    let mut report = Report::new("percpu");
    report.leave_out("tc/32k/1000", "FIXED+caches", "it is small");
    report.leave_out("tc/32k/2000", "FIXED+caches", "it is small");
    assert_eq!(report.left_out.len(), 1);
    assert_eq!(report.left_out[0].workloads, ["tc/32k/1000", "tc/32k/2000"]);
}
