//! The report as text: printed tables with contenders as lines, then the comparison with others,
//! then a few sentences.

use comfy_table::{CellAlignment, Table, presets};

use super::{Figure, LeftOut, Report, Summary, distinct};

pub(crate) fn header(report: &Report) -> String {
    format!(
        "{}\nMedians; nanoseconds per operation where no column says otherwise.\n",
        report.machine
    )
}

pub(crate) fn figures(report: &Report, heading: &str) -> String {
    let rows: Vec<_> = report.rows_of(heading).collect();
    let columns = distinct(rows.iter().map(|row| row.shown.column.as_str()));
    let contenders = distinct(rows.iter().map(|row| row.contender.as_str()));
    let mut table = new_table();
    table.set_header(core::iter::once("").chain(columns.iter().copied()));
    for contender in contenders {
        let figure = |column: &&str| {
            let is_it = |row: &&&Figure| row.contender == contender && row.shown.column == *column;
            let row = rows.iter().find(is_it);
            row.map_or("-".into(), |row| number(row.summary.median / row.shown.divisor))
        };
        table.add_row(core::iter::once(contender.to_owned()).chain(columns.iter().map(figure)));
    }
    align_numbers(&mut table, 1);
    format!("\n{heading}\n{table}\n")
}

/// What follows the printed tables; `remarks` are those of the table.
pub(crate) fn ending(report: &Report, remarks: &str) -> String {
    let mut text = remarks.to_owned();
    if !report.bars.is_empty() {
        text.push_str("\nOurs and what it is held against: median [10th..90th percentile]\n");
        text.push_str(&format!("{}\n", comparison(report)));
    }
    text.push_str(&left_out(report));
    let summary = summary(report);
    if summary.is_empty() { text } else { format!("{text}\n{summary}") }
}

/// An empty table, in the form that a Markdown file takes as it is.
pub(crate) fn new_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table
}

/// Aligns the columns from number `from` on to the right.
pub(crate) fn align_numbers(table: &mut Table, from: usize) {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// One line for each reason why a contender took no part.
fn left_out(report: &Report) -> String {
    let line = |LeftOut { contender, reason, workloads }: &LeftOut| {
        let workloads = workloads.join(", ");
        format!("{contender} is left out, as {reason}:\n  {workloads}\n")
    };
    let lines: String = report.left_out.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

fn comparison(report: &Report) -> Table {
    let mut table = new_table();
    table.set_header(["workload", "ours", "median", "versus", "median", "ratio", "bar", ""]);
    for bar in &report.bars {
        // What is held against a number is no time, unless the number is.
        let is_time = report.row(&bar.workload, &bar.versus).is_some();
        let cell = |contender: &str| {
            let row = report.row(&bar.workload, contender).filter(|_| is_time);
            row.map_or(String::new(), |row| {
                let Summary { median, low, high, .. } = row.summary;
                let [median, low, high] = [median, low, high].map(number);
                format!("{median} [{low}..{high}]")
            })
        };
        table.add_row([
            bar.workload.clone(),
            bar.contender.clone(),
            cell(&bar.contender),
            bar.versus.clone(),
            cell(&bar.versus),
            ratio(bar.ratio),
            bar.at_most.map_or(String::new(), |bar| format!("<= {}", ratio(bar))),
            bar.verdict.clone().unwrap_or_default(),
        ]);
    }
    align_numbers(&mut table, 4);
    table
}

/// Three significant digits are more than a benchmark is good for.
pub(crate) fn number(value: f64) -> String {
    match value {
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Ratios near 1 or 0 are told apart by the third digit, others by the second.
pub(crate) fn ratio(value: f64) -> String {
    if value < 0.1 || (value - 1.0).abs() < 0.1 {
        format!("{value:.3}")
    } else {
        format!("{value:.2}")
    }
}

fn summary(report: &Report) -> String {
    let count = |verdict: &str| {
        report.bars.iter().filter(|bar| bar.verdict.as_deref() == Some(verdict)).count()
    };
    match (count("PASS"), count("MISS")) {
        (0, 0) if report.bars.is_empty() => String::new(),
        (0, 0) if !report.bars_withheld => "None of these rows has a bar.\n".to_owned(),
        (0, 0) => {
            let hint = if cfg!(feature = "peers") { "" } else { " (needs the feature `peers`)" };
            format!("Bars are judged only when every peer takes part{hint}.\n")
        }
        (pass, miss) => format!("Bars: {pass} passed, {miss} missed.\n"),
    }
}

#[cfg(test)]
#[path = "../../tests/unit/harness_text.rs"]
mod tests;
