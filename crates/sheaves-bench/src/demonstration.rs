//! What `--quick` shows without a table: Sheaves beside glibc's malloc, what that means to a
//! program, and the result of 2011 before and after.

use crate::contenders::allocators::SIZES;
use crate::harness::{Failure, Figure, Report, figures};
use crate::plan::Args;
use crate::tables;
use crate::tables::slabtest::before_after;

const GLIBC: &str = "glibc";
const MALLOC: &str = "malloc";
/// glibc keeps freed blocks up to this size at hand for each thread; most blocks are smaller.
const SMALL_BYTES: usize = 1032;
/// The share of its time that the program of the example spends in malloc and free.
const SHARE: f64 = 0.2;

pub(crate) fn run(print: &mut dyn FnMut(&str) -> Result<(), Failure>) -> Result<Report, Failure> {
    let mut report = measure("pair", SIZES.quick, &["cache", MALLOC, GLIBC])?;
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

fn beside_glibc(report: &Report) -> String {
    let is_small = |row: &&Figure| row.shown.size.is_some_and(|size| size <= SMALL_BYTES);
    let own = report.rows.iter().filter(|row| row.contender == MALLOC).filter(is_small);
    let speedup =
        |row: &Figure| Some(report.row(&row.workload, GLIBC)?.summary.median / row.summary.median);
    let speedups: Vec<f64> = own.filter_map(speedup).collect();
    format!(
        "{}\n\nAllocating an object and freeing it at once, nanoseconds, by size: {}\n{}\n",
        report.machine,
        figures(report, "pair").trim_start(),
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
