//! The report as text: figures with contenders as lines and sizes as columns, then the comparison
//! with the best of the field, then a few sentences.

use comfy_table::{CellAlignment, Table, presets};

use super::{Report, bars, demonstration, is_mode};
use crate::workload::name::Name;

/// The whole report.
pub(crate) fn render(report: &Report) -> String {
    let mut text = format!("{}\n", report.machine);
    text.push_str("Nanoseconds per operation: medians (low and high are in the comparison).\n");
    for group in groups(report) {
        text.push_str(&format!("\n{group}\n{}\n", figures(report, group)));
    }
    if !report.bars.is_empty() {
        text.push_str("\nOurs and the best of the same field: median [10th..90th percentile]\n");
        text.push_str(&format!("{}\n", comparison(report)));
    }
    for part in [demonstration::sentences(report), summary(report)] {
        if !part.is_empty() {
            text.push_str(&format!("\n{part}"));
        }
    }
    text
}

/// Names of workloads without the size, each once.
fn groups(report: &Report) -> Vec<&str> {
    let mut groups = Vec::new();
    for workload in report.workloads() {
        let group = bars::group_of(workload);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

/// An empty table, in the form that a Markdown file takes as it is.
pub(super) fn new_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table
}

/// Aligns the columns from number `from` on to the right.
pub(super) fn align_numbers(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// One line for each contender, one column for each size.
fn figures(report: &Report, group: &str) -> Table {
    let mut workloads = report.workloads();
    workloads.retain(|workload| bars::group_of(workload) == group);
    let mut contenders: Vec<&str> = Vec::new();
    for row in &report.rows {
        let fits = bars::group_of(&row.workload) == group && !is_mode(&row.contender);
        if fits && !contenders.contains(&row.contender.as_str()) {
            contenders.push(&row.contender);
        }
    }
    let mut table = new_table();
    let size = |name: &&str| Name::parse(name).size.map_or("ns".into(), |size| size.to_string());
    let head = core::iter::once(String::new()).chain(workloads.iter().map(size));
    table.set_header(head.collect::<Vec<_>>());
    for contender in contenders {
        let figure = |workload: &&str| {
            let row = report.row(workload, contender);
            row.map_or("-".into(), |row| number(row.median))
        };
        let line = core::iter::once(contender.to_owned()).chain(workloads.iter().map(figure));
        table.add_row(line.collect::<Vec<_>>());
    }
    align_numbers(&mut table, 1);
    table
}

/// One line for each row in which Sheaves meets somebody.
fn comparison(report: &Report) -> Table {
    let mut table = new_table();
    table.set_header(["workload", "ours", "ns", "best", "ns", "ratio", "bar", ""]);
    for bar in &report.bars {
        let cell = |contender: &str| {
            let row = report.row(&bar.workload, contender);
            row.map_or(String::new(), |row| {
                let [median, low, high] = [row.median, row.low, row.high].map(number);
                format!("{median} [{low}..{high}]")
            })
        };
        table.add_row([
            bar.workload.clone(),
            bar.contender.clone(),
            cell(&bar.contender),
            bar.versus.clone(),
            cell(&bar.versus),
            format!("{:.2}", bar.ratio),
            bar.at_most.map_or(String::new(), |bar| format!("<= {bar:.2}")),
            bar.verdict.clone().unwrap_or_default(),
        ]);
    }
    align_numbers(&mut table, 4);
    table
}

/// Three significant digits are more than a benchmark is good for.
pub(super) fn number(value: f64) -> String {
    match value {
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// How the bars stand, in one sentence.
fn summary(report: &Report) -> String {
    let count = |verdict: &str| {
        report.bars.iter().filter(|bar| bar.verdict.as_deref() == Some(verdict)).count()
    };
    match (count("PASS"), count("MISS")) {
        (0, 0) if report.bars.is_empty() => String::new(),
        (0, 0) => {
            let hint = if cfg!(feature = "peers") { "" } else { " (needs the feature `peers`)" };
            format!("Bars are judged only when every peer takes part{hint}.\n")
        }
        (pass, miss) => format!("Bars: {pass} passed, {miss} missed.\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contender::Kind;

    fn report() -> Report {
        let mut report = Report::new("slabtest");
        let kinds = [Kind::Cache, Kind::Locked];
        let series = vec![vec![vec![2.0, 2.0]], vec![vec![5.0, 5.0]]];
        for size in [64, 128] {
            report.add(&[format!("slabtest/2/{size}")], &kinds, &series);
        }
        report.finish();
        report
    }

    #[test]
    fn the_text_has_figures_comparison_and_words() {
        let text = render(&report());
        for part in ["slabtest/2\n", "128", "5.00", "PASS", "2.50 times as fast"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(!text.contains("MISS"));
    }

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!(number(1.234), "1.23");
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(1234.5), "1234");
    }

    #[test]
    fn a_group_appears_once() {
        assert_eq!(groups(&report()), ["slabtest/2"]);
    }
}
