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
    assert_eq!(traces(&report, "all", "").curves.len(), 2);
    let svg = draw_traces(&report).unwrap();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
    for part in ["tenth", "malloc", "glibc", "seconds"] {
        assert!(svg.contains(part), "{part} is missing in {svg}");
    }
    assert!(!svg.contains("tcmalloc"));
    assert!(draw_traces(&Report::new("footprint")).is_ok());
}

/// The names in a picture of a column with these medians.
fn order(unit: &str, medians: &[(&str, f64)]) -> Vec<String> {
    let row = |(name, median): &(&str, f64)| Figure {
        unit: unit.to_owned(),
        ..figure("row", name, *median, shown("row", 1))
    };
    let rows: Vec<Figure> = medians.iter().map(row).collect();
    dots("", rows.iter().collect()).marks.iter().map(|mark| mark.name.to_owned()).collect()
}

#[test]
fn the_best_one_is_on_top() {
    let medians = [("b", 2.0), ("c", 3.0), ("a", 1.0)];
    assert_eq!(order("ns/op", &medians), ["a", "b", "c"]);
    assert_eq!(order("bytes to glibc", &medians), ["a", "b", "c"]);
    assert_eq!(order("op/s", &medians), ["c", "b", "a"]);
}

#[test]
fn three_sizes_are_lines_and_fewer_are_dots() {
    let mut report = Report::new("pair");
    for size in [8, 64] {
        report.rows.push(figure("pair", "cache", 1.0, shown("pair", size)));
    }
    let dots = |report: &Report| {
        let pictures = pictures(report, "pair").unwrap();
        pictures.iter().map(|it| it.svg.matches("<circle").count()).collect::<Vec<_>>()
    };
    assert_eq!(dots(&report), [1, 1]);
    report.rows.push(figure("pair", "cache", 1.0, shown("pair", 1024)));
    assert_eq!(dots(&report), [3]);
    // What can be no figure is left out, and of two modes the better one counts.
    report.rows.push(figure("pair", "cache", f64::MAX, shown("pair", 4096)));
    report.rows.push(figure("pair", "cache", f64::NAN, shown("pair", 8192)));
    let mode = figure("pair", "cache@percpu", 1.0, shown("pair", 64));
    report.rows.push(Figure { is_mode: true, ..mode });
    assert_eq!(dots(&report), [3]);
    assert!(pictures(&report, "replace").unwrap().is_empty());
}

#[test]
fn axes_have_the_unit_that_is_shown() {
    let axis = |unit: &str, divisor| {
        let mut row = figure("row", "cache", 1.0, shown("row", 1));
        row.unit = unit.to_owned();
        row.shown.divisor = divisor;
        about(&row)
    };
    assert_eq!(axis("ns/op", 1.0), "ns/op (lower is better)");
    assert_eq!(axis("ns/op", 1000.0), "us/op (lower is better)");
    assert_eq!(axis("bytes", 1_048_576.0), "MiB (lower is better)");
    assert_eq!(axis("op/s", 1e6), "1M op/s (higher is better)");
    assert_eq!(axis("bytes to glibc", 1.0), "bytes to glibc (lower is better)");
    assert_eq!(axis("grace periods", 1.0), "grace periods");
}

#[test]
fn a_contender_has_one_colour_in_all_pictures() {
    let mut report = Report::new("pair");
    for (heading, contender) in [("a", "cache"), ("a", "glibc"), ("b", "glibc"), ("b", "other")] {
        let row = figure(heading, contender, 1.0, shown(heading, 8));
        report.rows.push(Figure { is_ours: contender == "cache", ..row });
    }
    let contenders = Contenders::of(&report);
    let colour = |name| contenders.curve(name, Vec::new()).colour;
    assert_eq!(colour("cache"), chart::colour(true, 0));
    assert_eq!(colour("glibc"), chart::colour(false, 0));
    assert_eq!(colour("other"), chart::colour(false, 1));
}
