//! The report as text: figures with contenders as lines and sizes as columns, then the comparison
//! with the best of the field, then a few sentences.

use comfy_table::{CellAlignment, Table, presets};

use super::work::Work;
use super::{Report, Row, bars, demonstration, is_mode, rcu, reclaim};
use crate::workload;
use crate::workload::measures;
use crate::workload::name::Name;
use crate::workload::percpu::variant::ZEROED;

/// The whole report.
pub(crate) fn render(report: &Report) -> String {
    let mut text = format!("{}\n", report.machine);
    if !report.rows.iter().all(|row| measures::of_row(&row.workload).is_some()) {
        text.push_str("Nanoseconds per operation: medians (low and high are in the comparison).\n");
    }
    let has_own_table = |group: &&str| measures::of_row(group).is_some();
    for group in groups(report).into_iter().filter(|group| !has_own_table(group)) {
        text.push_str(&format!("\n{group}\n{}\n", figures(report, group)));
    }
    text.push_str(&rcu::tables_of_waiters(report));
    text.push_str(&reclaim::tables(report));
    text.push_str(&all_work(report));
    if !report.bars.is_empty() {
        text.push_str("\nOurs and what it is held against: median [10th..90th percentile]\n");
        text.push_str(&format!("{}\n", comparison(report)));
    }
    text.push_str(&left_out(report));
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

/// What was done, which is the same on every machine: a table for each group of rows. Where
/// zeroing makes no difference to what was done, it is told once.
fn all_work(report: &Report) -> String {
    let mut text = String::new();
    for group in groups(report) {
        let rows = report.rows.iter().filter(|row| bars::group_of(&row.workload) == group);
        let rows = rows.filter_map(|row| Some((row, row.work.as_ref()?)));
        let (known, rows): (Vec<_>, Vec<_>) =
            rows.partition(|(row, work)| work_without_zeroing(report, row) == Some(work));
        let others = match group.split_once(ZEROED) {
            Some((plain, _)) if !known.is_empty() => format!("; others as with {plain}"),
            _ => String::new(),
        };
        if !rows.is_empty() {
            let table = work_table(&rows);
            text.push_str(&format!("\n{group}: what was done{others}\n{table}\n"));
        }
    }
    if !text.is_empty() {
        text.push_str(
            "\nPer allocation: chunks tested, words of bitmaps read, blocks refreshed, blocks\n\
             visited by refreshes of chunks. At the end: chunks relegated and live, populated\n\
             pages, free bytes that fit nothing, bytes in use, and these to what the objects\n\
             need with the holes that alignment forces. Pages and bytes are those of one slot.\n",
        );
    }
    text
}

/// The work of the same contender and filters where objects are not zeroed, if this row's are.
fn work_without_zeroing<'a>(report: &'a Report, row: &Row) -> Option<&'a Work> {
    let (plain, _) = bars::group_of(&row.workload).split_once(ZEROED)?;
    let filters = Name::parse(&row.workload).size?;
    report.row(&format!("{plain}/{filters}"), &row.contender)?.work.as_ref()
}

fn work_table(rows: &[(&Row, &Work)]) -> Table {
    let mut table = new_table();
    table.set_header([
        "",
        "filters",
        "tested",
        "words",
        "refreshed",
        "visited",
        "relegated",
        "chunks",
        "pages",
        "unusable",
        "in use",
        "ratio",
    ]);
    for (row, work) in rows {
        let filters = Name::parse(&row.workload).size;
        let mut line = vec![row.contender.clone(), filters.map_or("-".into(), |n| n.to_string())];
        match &work.chunks {
            Some(chunks) => {
                line.push(format!("{:.3}", chunks.chunks_tested));
                line.extend(
                    [chunks.words_read, chunks.block_refreshes, chunks.blocks_visited].map(number),
                );
                line.extend(
                    [chunks.relegations, chunks.chunks_live, chunks.populated_pages]
                        .map(|count| count.to_string()),
                );
            }
            None => line.extend(core::iter::repeat_n("-".to_owned(), 7)),
        }
        line.push(work.unusable_bytes.map_or("-".into(), |bytes| bytes.to_string()));
        line.push(work.bytes_in_use.to_string());
        line.push(format!("{:.3}", work.memory_ratio()));
        table.add_row(line);
    }
    align_numbers(&mut table, 1);
    table
}

/// One line for each reason why a contender took no part.
fn left_out(report: &Report) -> String {
    let line = |left_out: &super::LeftOut| {
        let super::LeftOut { contender, reason, workloads } = left_out;
        let workloads = workloads.join(", ");
        format!("{contender} is left out, as {reason}:\n  {workloads}\n")
    };
    let lines: String = report.left_out.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// One line for each row in which Sheaves meets a peer.
fn comparison(report: &Report) -> Table {
    let mut table = new_table();
    table.set_header(["workload", "ours", "ns", "versus", "ns", "ratio", "bar", ""]);
    for bar in &report.bars {
        // What is held against a number is no time, unless the number is.
        let is_time = report.row(&bar.workload, &bar.versus).is_some();
        let cell = |contender: &str| {
            let row = report.row(&bar.workload, contender).filter(|_| is_time);
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
            ratio(bar.ratio),
            bar.at_most.map_or(String::new(), |bar| format!("<= {}", ratio(bar))),
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

/// Ratios near 1 or 0 are told apart by the third digit, others by the second.
fn ratio(value: f64) -> String {
    if value < 0.1 || (value - 1.0).abs() < 0.1 {
        format!("{value:.3}")
    } else {
        format!("{value:.2}")
    }
}

/// How the bars stand, in one sentence.
fn summary(report: &Report) -> String {
    let count = |verdict: &str| {
        report.bars.iter().filter(|bar| bar.verdict.as_deref() == Some(verdict)).count()
    };
    match (count("PASS"), count("MISS")) {
        (0, 0) if report.bars.is_empty() => String::new(),
        (0, 0) if report.rows.iter().all(|row| is_judged_without_peers(&row.workload)) => {
            "None of these rows has a bar.\n".to_owned()
        }
        (0, 0) => {
            let hint = if cfg!(feature = "peers") { "" } else { " (needs the feature `peers`)" };
            format!("Bars are judged only when every peer takes part{hint}.\n")
        }
        (pass, miss) => format!("Bars: {pass} passed, {miss} missed.\n"),
    }
}

/// Whether the workload is of a table whose contenders are all built in.
fn is_judged_without_peers(workload: &str) -> bool {
    let part = Name::parse(workload).part;
    if measures::of_row(workload).is_some() {
        return true;
    }
    use workload::Table::{Counter, Map, Percpu, Readers};
    [Percpu, Counter, Readers, Map].iter().any(|table| table.row_parts().contains(&part.as_str()))
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
    fn work_and_who_is_left_out_are_told() {
        let mut report = Report::new("percpu");
        let job = workload::Table::Percpu.jobs(&[1000], 1, true).remove(0);
        assert_eq!(job.name(), "tc/32k/1000");
        assert!(!report.admit(&job, Kind::FixedCaches) && report.admit(&job, Kind::V50));
        report.add(&job.rows(), &[Kind::V50], &vec![vec![vec![40.0]]]);
        let work = super::super::work::example(15.96);
        report.add_work(&job.rows(), Kind::V50, Some(work));
        let text = render(&report);
        for part in ["tc/32k: what was done", "15.960", "12000", "1.024", "FIXED+caches is left"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
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
