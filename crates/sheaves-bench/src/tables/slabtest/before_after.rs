//! The short report of the result of 2011, before and after.

use crate::harness::{
    Ratio, Report, Shown, align_numbers, figures, geometric_mean, new_table, number,
};

/// The speed-up of the alloc/free pair that was published in 2011, a mean over the sizes.
const PUBLISHED_SPEEDUP: f64 = 1.70;
const LOCKED: &str = "locked";
const CACHE: &str = "cache";
/// The part that the published result is about.
const PAIR: &str = "slabtest/2";

/// The rows that are summed up, and what they are in words.
const PARTS: [(&str, &str); 9] = [
    ("slabtest/1-alloc", "10,000 allocations in a row"),
    ("slabtest/1-free", "10,000 frees in a row"),
    (PAIR, "an allocation and a free at once"),
    ("slabtest/3-alloc", "10,000 allocations, all CPUs at once"),
    ("slabtest/3-free", "10,000 frees, all CPUs at once"),
    ("slabtest/4", "an allocation and a free, all CPUs at once"),
    ("slabtest/5-free", "a free of what another CPU allocated"),
    ("slabtest/6-alloc", "an allocation while others free"),
    ("slabtest/6-free", "a free while another allocates"),
];

/// The contenders of the demonstration.
pub(crate) const CONTENDERS: [&str; 2] = [CACHE, LOCKED];

pub(crate) fn render(report: &Report) -> String {
    let mut text =
        String::from("Slab allocation with a lock for each CPU (`locked`), and with restartable\n");
    text.push_str(
        "sequences instead (`cache`). Nanoseconds, medians; the same slab is beneath both.\n",
    );
    text.push_str("\nAn allocation and a free at once, by size: ");
    text.push_str(figures(report, PAIR).trim_start());
    text.push_str(&format!("\nAll parts of the test\n{}\n\n", by_part(report)));
    text.push_str(&sentences(report));
    text
}

fn by_part(report: &Report) -> comfy_table::Table {
    let mut table = new_table();
    table.set_header(["what", "locked, 64 B", "cache, 64 B", "faster", "over all sizes"]);
    for (group, what) in PARTS {
        let ratios = speedups(report, group);
        let Some(mean) = geometric_mean(&ratios) else { continue };
        let figure = |contender| median(report, &format!("{group}/64"), contender);
        let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ratios.iter().copied().fold(0.0, f64::max);
        table.add_row([
            what.to_owned(),
            figure(LOCKED),
            figure(CACHE),
            format!("{mean:.2}x"),
            format!("{low:.2}x to {high:.2}x"),
        ]);
    }
    align_numbers(&mut table, 1);
    table
}

/// The result in plain words; empty if the report does not have it.
pub(crate) fn sentences(report: &Report) -> String {
    let mean_of = |group| geometric_mean(&speedups(report, group));
    let mut text = String::new();
    if let Some(mean) = mean_of(PAIR) {
        text.push_str(&format!(
            "Allocating and freeing at once is {mean:.2} times as fast with `cache` as with \
             `locked`;\nfor Linux in 2011, {PUBLISHED_SPEEDUP:.2} times was published.\n"
        ));
    }
    if let (Some(alloc), Some(free)) = (mean_of("slabtest/1-alloc"), mean_of("slabtest/1-free")) {
        text.push_str(&format!(
            "Allocating 10,000 objects in a row is {alloc:.2} times as fast, freeing them \
             {free:.2} times\n(1.18 and 0.98 were published).\n"
        ));
    }
    text
}

fn median(report: &Report, row: &str, contender: &str) -> String {
    report.row(row, contender).map_or("-".into(), |row| number(row.summary.median))
}

/// The cache to `locked`, taken round by round, one for each row.
fn ratios(report: &Report) -> impl Iterator<Item = &Ratio> {
    report.ratios.iter().filter(|ratio| ratio.of == CACHE && ratio.to == LOCKED)
}

fn shown<'a>(report: &'a Report, ratio: &Ratio) -> Option<&'a Shown> {
    report.row(&ratio.workload, &ratio.of).map(|row| &row.shown)
}

/// How much faster than `locked` the cache is, one for each row of a part.
fn speedups(report: &Report, part: &str) -> Vec<f64> {
    let is_it = |ratio: &&Ratio| shown(report, ratio).is_some_and(|row| row.heading == part);
    ratios(report).filter(is_it).map(|ratio| 1.0 / ratio.summary.median).collect()
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_slabtest_before_after.rs"]
mod tests;
