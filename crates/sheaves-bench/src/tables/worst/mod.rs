//! `worst`: the longest call, and whether it grows with the heap.
//!
//! Rows are `worst/CALL/MIB-mib`: the longest call in a heap of that many MiB, and
//! `worst-p9999/...`, `-p99` and `-p50`: the percentiles. A percentile of fewer calls than it takes
//! to know it is left out. Figures are CPU time of the thread, so that other load does not count,
//! with the 0.3 us that reading the clock takes, except where a lock is what costs: there it is
//! time on the wall.
//!
//! | CALL | what |
//! |---|---|
//! | `malloc`, `free`, `calloc`, `realloc`, `statistics` | a call of one thread |
//! | `free_rcu` | the same course with each `free` deferred until readers are gone |
//! | `malloc-beside-trim` | wall time of `malloc` while another thread is in `malloc_trim` |
//! | `malloc-without-trim` | the same for as long after that |
//! | `fork-beside-trim`, `fork-without-trim` | wall time of `fork`, likewise, and before that |
//! | `map-insert`, `map-next`, `map-remove`, `map-clear` | a call of a map; ENTRIES, not MIB |
//!
//! `worst/share/MIB-mib` is the CPU time of the threads that are not the program's, beside one that
//! replaces blocks of that heap all the time, in percent of a CPU.
//!
//! `statistics` is `mallinfo2` or what the allocator has instead. The heap has blocks of 500 to
//! 2,000 bytes, and a course as in a program that works with much, then with little:
//!
//! | step | timed |
//! |---|---|
//! | the heap is filled | |
//! | half of the blocks are freed, in random order | `free` |
//! | an eighth is allocated | `malloc` |
//! | of the first blocks a sixteenth is left | `free` |
//! | statistics are asked for, 100 times or for a second | `statistics` |
//! | 300,000 blocks are replaced | `malloc`, `free` |
//! | 100,000 blocks are replaced by zeroed ones | `calloc`, `free` |
//! | 100,000 blocks get another size | `realloc` |
//!
//! Beside a trim, all of the heap has been in memory, and a sixteenth of the blocks is left. The
//! map grows from nothing, is iterated over, half of its entries are removed, the others cleared.
//!
//! Each contender of a heap has a process of its own for each heap. Fork handlers of Sheaves run in
//! all of them, which take a few microseconds. Blocks are not written to, except beside a trim:
//! heaps above half of the memory that is available are left out.

mod beside;
mod deferring;
mod heap;
mod maps;
mod share;
mod times;

use core::time::Duration;

use crate::contenders::allocators;
use crate::harness::{
    Case, Contender, Effort, Judge, Judgement, Measure, Options, Report, Row, Table,
    available_bytes,
};
use beside::{Beside, Measured};
use heap::{Call, Course};
use share::Share;
use times::MEASURES;

const HEAPS_MIB: [usize; 4] = [64, 1024, 4096, 16_384];
const QUICK_HEAPS_MIB: [usize; 2] = [64, 256];
const ENTRIES: [usize; 3] = [10_000, 1_000_000, 10_000_000];
const QUICK_ENTRIES: [usize; 2] = [10_000, 1_000_000];
/// Blocks that are replaced, replaced by zeroed ones, and resized, also for a first look.
const REPLACED: [usize; 2] = [300_000, 100_000];
const CLEARED: [usize; 2] = [100_000, 20_000];
const RESIZED: [usize; 2] = [100_000, 20_000];
/// How long the share of other threads is measured.
const SHARE_TIME: [Duration; 2] = [Duration::from_secs(10), Duration::from_millis(500)];

/// The longest call, to that of the best peer.
const WORST_MAX: f64 = 1.0;
/// From the smallest heap to the largest: by how much the longest call may grow, and by which
/// factor the 99.99th percentile.
const GROWTH_US_MAX: f64 = 100.0;
const GROWTH_MAX: f64 = 1.5;
/// The calls of which that is asked.
const GROWING: [&str; 5] = ["malloc", "free", "calloc", "realloc", "free_rcu"];
const STATISTICS_US_MAX: f64 = 1000.0;
/// By how much the longest call beside a trim may exceed the longest one without.
const BESIDE_US_MAX: [(&str, f64); 2] = [("malloc", 1000.0), ("fork", 2000.0)];
const SHARE_PERCENT_MAX: f64 = 0.5;

/// Peers without a call that gives memory back.
const WITHOUT_TRIM: [&str; 2] = ["snmalloc", "rpmalloc"];

const EFFORT: [Effort; 2] = [
    Effort { rounds_max: 3, ..Effort::LONG[0] },
    Effort { rounds_min: 1, rounds_max: 1, ..Effort::LONG[1] },
];

pub(crate) static TABLE: Table = Table {
    ours: &["malloc", "rcu-map", "word-map"],
    effort: EFFORT,
    finish,
    ..Table::new("worst", "the longest call, in heaps of 64 MiB to 16 GiB", cases)
};

fn cases(options: &Options) -> Vec<Case> {
    let (heaps, entries): (&[usize], &[usize]) = match options.quick {
        true => (&QUICK_HEAPS_MIB, &QUICK_ENTRIES),
        false => (&HEAPS_MIB, &ENTRIES),
    };
    let most_mib = available_bytes().map_or(usize::MAX, |bytes| bytes >> 21);
    let effort = usize::from(options.quick);
    let of_heap = |mib: &usize| {
        let mib = *mib;
        [
            calls(mib, effort),
            free_rcu(mib, effort),
            beside(mib, Measured::Malloc),
            beside(mib, Measured::Fork),
            share(mib, SHARE_TIME[effort]),
        ]
    };
    let of_heaps = heaps.iter().filter(|mib| **mib <= most_mib).flat_map(of_heap);
    of_heaps.chain(entries.iter().map(|entries| maps::case(*entries))).collect()
}

/// `effort`: 0, or 1 for a first look.
fn calls(mib: usize, effort: usize) -> Case {
    let calls = &Call::ALL;
    let rows = calls.iter().flat_map(|call| rows(call.name(), mib, allocators::UNSIZED));
    let [replaced, cleared, resized] = [REPLACED, CLEARED, RESIZED].map(|counts| counts[effort]);
    let course = Course { bytes: mib << 20, replaced, cleared, resized, calls };
    in_processes(rows.collect(), allocators::contenders_of_malloc(course))
}

fn free_rcu(mib: usize, effort: usize) -> Case {
    let calls = &[Call::Free];
    let replaced = REPLACED[effort];
    let course = Course { bytes: mib << 20, replaced, cleared: 0, resized: 0, calls };
    in_processes(rows("free_rcu", mib, deferring::PEERS), deferring::contenders(course))
}

fn beside(mib: usize, measured: Measured) -> Case {
    let [beside, without] = match measured {
        Measured::Malloc => ["malloc-beside-trim", "malloc-without-trim"],
        Measured::Fork => ["fork-beside-trim", "fork-without-trim"],
    };
    let rows = [beside, without].into_iter().flat_map(|call| rows(call, mib, allocators::UNSIZED));
    let contenders = allocators::contenders_of_malloc(Beside { bytes: mib << 20, measured });
    let contenders = contenders.into_iter().map(|contender| match contender.family {
        family if WITHOUT_TRIM.contains(&family) => {
            let reason = "it has no call that gives memory back";
            Contender::left_out(family, reason.to_owned())
        }
        _ => contender,
    });
    in_processes(rows.collect(), contenders.collect())
}

fn share(mib: usize, time: Duration) -> Case {
    const MEASURE: [Measure; 1] = [Measure("", "%", "% of a CPU", 1.0)];
    let name = format!("share/{mib}-mib");
    let rows = Measure::rows(&MEASURE, ("worst", &name), &format!("worst/{name}"), |row, _| {
        row.limit("malloc", "1 %", row.median("malloc"), SHARE_PERCENT_MAX);
    });
    in_processes(rows, allocators::contenders_of_malloc(Share { bytes: mib << 20, time }))
}

fn rows(call: &'static str, mib: usize, peers: &'static [&'static str]) -> Vec<Row> {
    let name = format!("{call}/{mib}-mib");
    Measure::rows(&MEASURES, ("worst", &name), &format!("worst/{name}"), move |row, measure| {
        compare(row, call, peers, measure);
    })
}

/// Each contender in a process of its own.
fn in_processes(rows: Vec<Row>, contenders: Vec<Contender>) -> Case {
    let contenders = contenders.into_iter().map(|contender| {
        let name = contender.mode.map_or(contender.family, |mode| mode.name);
        contender.in_fresh_child(name)
    });
    Case::new(rows, contenders.collect())
}

fn compare(row: &mut Judge<'_>, call: &str, peers: &[&str], measure: &str) {
    peers.iter().for_each(|peer| row.ratio("malloc", peer));
    if call == "statistics" && measure.is_empty() {
        let figure = row.median("malloc").map(|nanoseconds| nanoseconds / 1e3);
        row.limit("malloc", "1 us", figure, STATISTICS_US_MAX);
    }
    let is_judged = GROWING.contains(&call) && measure.is_empty();
    let Some(best) = row.best(peers).filter(|_| matches!(measure, "" | "-p9999")) else { return };
    let at_most = Some(WORST_MAX).filter(|_| is_judged && row.has_all_peers(peers));
    row.hold("malloc", best, at_most);
}

/// Judges how calls grow from the smallest heap to the largest, and what a trim adds.
fn finish(report: &mut Report) {
    for call in GROWING {
        if let Some([first, last]) = ends(report, &format!("worst/{call}/")) {
            let (name, growth_us) = (format!("worst/{call}/growth"), (last - first) / 1e3);
            let bar = Judgement::new(&name, "malloc", "1 us", growth_us, Some(GROWTH_US_MAX));
            report.bars.push(bar);
        }
        if let Some([first, last]) = ends(report, &format!("worst-p9999/{call}/")) {
            let (name, growth) = (format!("worst-p9999/{call}/growth"), last / first);
            let bar = Judgement::new(&name, "malloc", "smallest heap", growth, Some(GROWTH_MAX));
            report.bars.push(bar);
        }
    }
    for (call, at_most) in BESIDE_US_MAX {
        for (workload, beside) in medians(report, &format!("worst/{call}-beside-trim/")) {
            let without = workload.replace("-beside-", "-without-");
            let Some(without) = report.row(&without, "malloc") else { continue };
            let more_us = (beside - without.summary.median) / 1e3;
            let name = format!("{workload}/more");
            report.bars.push(Judgement::new(&name, "malloc", "1 us", more_us, Some(at_most)));
        }
    }
}

/// The figures of `malloc` in the rows that begin so, from the smallest heap to the largest.
fn medians(report: &Report, part: &str) -> Vec<(String, f64)> {
    let rows = report
        .rows
        .iter()
        .filter(|row| row.contender == "malloc" && row.workload.starts_with(part) && !row.is_mode);
    rows.map(|row| (row.workload.clone(), row.summary.median)).collect()
}

/// The first of these and the last, if there are several.
fn ends(report: &Report, part: &str) -> Option<[f64; 2]> {
    match &medians(report, part)[..] {
        [(_, first), .., (_, last)] => Some([*first, *last]),
        _ => None,
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_worst.rs"]
mod tests;
