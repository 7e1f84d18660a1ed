//! Tests of `src/harness/plot.rs`.

use serde_json::json;

use super::*;
use crate::harness::report::tests::{figure, shown};

#[test]
fn each_table_has_a_panel_and_each_contender_a_line() {
    let mut report = Report::new("footprint");
    for (table, contender) in [("all", "malloc"), ("all", "glibc"), ("tenth", "malloc")] {
        let mut row = figure(table, contender, 1.0, shown(table, 1));
        row.work = Some(json!({"resident": [[0.0, 1e6], [0.5, 9e6], [1.0, 1e6]]}));
        report.rows.push(row);
    }
    // What has no trace has no line.
    report.rows.push(figure("all", "tcmalloc", 1.0, shown("all", 1)));
    assert_eq!(traces(&report, "all").len(), 2);
    let svg = draw(&report).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
    for part in ["tenth", "malloc", "glibc", "seconds"] {
        assert!(svg.contains(part), "{part} is missing in {svg}");
    }
    assert!(!svg.contains("tcmalloc"));
}
