//! What `--quick` shows without a table: Sheaves beside glibc's malloc, what that means to a
//! program, and the result of 2011 before and after.

use crate::contenders::allocators::SIZES;
use crate::harness::failure::Failure;
use crate::harness::report::Report;
use crate::harness::text::{align_numbers, new_table, number};
use crate::plan::Args;
use crate::tables;
use crate::tables::slabtest::before_after;

/// The lines of the first table: contender, and what it is in words.
const FORMS: [(&str, &str); 3] = [
    (GLIBC, "glibc's malloc and free"),
    (MALLOC, "Sheaves' malloc and free"),
    (CACHE, "a named cache of Sheaves"),
];
const GLIBC: &str = "glibc";
const MALLOC: &str = "malloc";
const CACHE: &str = "cache";
/// glibc keeps freed blocks up to this size at hand for each thread; most blocks are smaller.
const SMALL_BYTES: usize = 1032;
/// The share of its time that the program of the example spends in malloc and free.
const SHARE: f64 = 0.2;

/// Runs it; `print` gets its text. Returns everything that was measured.
pub(crate) fn run(print: &mut dyn FnMut(&str) -> Result<(), Failure>) -> Result<Report, Failure> {
    let mut report = measure("pair", SIZES.quick, &FORMS.map(|(contender, _)| contender))?;
    print(&beside_glibc(&report))?;
    let slabtest = measure("slabtest", SIZES.full, &before_after::CONTENDERS)?;
    print(&before_after::render(&slabtest))?;
    print(&format!("\nMore: a table ({}) instead of --quick.\n", tables::names()))?;
    report.absorb(slabtest);
    Ok(report)
}

fn measure(part: &str, sizes: &[usize], contenders: &[&str]) -> Result<Report, Failure> {
    asked(part, sizes, contenders).plan()?.run(&mut |_| Ok(()))
}

fn asked(part: &str, sizes: &[usize], contenders: &[&str]) -> Args {
    Args {
        table: Some(part.to_owned()),
        quick: true,
        sizes: Some(sizes.iter().map(usize::to_string).collect()),
        contenders: Some(contenders.iter().map(|name| (*name).to_owned()).collect()),
        ..Args::default()
    }
}

/// The first part: a line for each form, then what the figures mean.
fn beside_glibc(report: &Report) -> String {
    let rows: Vec<_> = report.rows.iter().filter(|row| row.contender == MALLOC).collect();
    let median = |workload: &str, contender: &str| {
        report.row(workload, contender).map_or(f64::NAN, |row| row.summary.median)
    };
    let line = |head: &str, cell: &dyn Fn(&str) -> String| {
        let cells = rows.iter().map(|row| cell(&row.workload));
        core::iter::once(head.to_owned()).chain(cells).collect::<Vec<_>>()
    };
    let mut table = new_table();
    let columns = rows.iter().map(|row| row.shown.column.clone());
    table.set_header(core::iter::once("bytes".to_owned()).chain(columns));
    for (contender, what) in FORMS {
        table.add_row(line(what, &|workload| number(median(workload, contender))));
    }
    align_numbers(&mut table, 1);
    let is_small = |size| size <= SMALL_BYTES;
    let small = rows.iter().filter(|row| row.shown.size.is_some_and(is_small));
    let speedups: Vec<f64> =
        small.map(|row| median(&row.workload, GLIBC) / median(&row.workload, MALLOC)).collect();
    format!(
        "{}\n\nAllocating an object and freeing it at once, nanoseconds, medians\n{table}\n\n{}\n",
        report.machine,
        meaning(&speedups)
    )
}

/// What the speed-ups of malloc mean to a program.
fn meaning(speedups: &[f64]) -> String {
    let Some(mean) = crate::harness::statistics::geometric_mean(speedups) else {
        return String::new();
    };
    let saved = SHARE * (1.0 - 1.0 / mean) * 100.0;
    format!(
        "`malloc` and `free` are {mean:.1} times as fast as glibc's up to {SMALL_BYTES} bytes. A \
         program that spends\n{:.0} % of its time in them would take about {saved:.0} % less time \
         under `sheaves run`; one that\nallocates rarely gains nothing. A cache is faster still, \
         because its `free` need not look up the size\nof the object.\n",
        SHARE * 100.0
    )
}

#[cfg(test)]
#[path = "../tests/unit/demonstration.rs"]
mod tests;
