//! `footprint`: how much memory a program holds over time, above what it had at its start.
//!
//! | row | what the program does before it is quiet |
//! |---|---|
//! | `all/1t` | allocates 1 GiB in blocks of 16 to 512 bytes and frees all; it has one thread |
//! | `all` | the same; a second thread has used the allocator and sleeps |
//! | `tenth` | two threads allocate as much together and free all but a random tenth |
//! | `foreign` | one thread allocates as much, another frees it |
//! | `bursts` | allocates and frees 256 MiB each second, five times |
//! | `shift` | four threads replace blocks, 128 MiB in all, of sizes that shift each phase |
//! | `day` | 24 phases: allocates 256 MiB, keeps a random fifth to the next phase, frees the rest |
//! | `fork` | as `all`; before the frees it forks a child, which sleeps |
//! | `small/1m`, `small/3m` | replaces blocks of up to 256 or 512 bytes; 1.3 or 3 MiB are in use |
//! | `small/lists` | replaces short lists of small blocks |
//! | `small/2t` | as `small/3m` in each of two threads |
//!
//! The blocks of `day` have 100 bytes, 1 KiB and 10 KiB in turn.
//!
//! A row is the peak. `footprint-0s`, `-2s` and `-10s` are what is held that much later than the
//! last free, `-trimmed` what is left after a call such as `malloc_trim`, and `-cpu` is processor
//! time of the quiet 10 seconds. `shift` has the rate of replacements, and `-mean` is what is held
//! in the mean over the last two thirds. The rows `small` are peaks over what there was before the
//! first call, and so have what the allocator itself needs. With `--quick` all is smaller, and a
//! whole table has fewer rows.
//!
//! The contenders are `malloc` and the [`allocators`] whose `free` finds the size, tcmalloc with
//! caches for each CPU. Each row of each contender has a process of its own.

mod blocks;
mod course;
mod shift;
mod small;

use core::time::Duration;

use crate::contenders::allocators::{self, Workload};
use crate::harness::{Case, Effort, Judge, Measure, Options, Table};
use blocks::MIB;
use course::{Course, Kind};
use shift::Shift;
use small::Small;

/// What each sample lists, in this order.
const MEASURES: [Measure; 6] = [
    Measure("", "bytes", "peak, MiB", MIB as f64),
    Measure("-0s", "bytes", "after 0 s", MIB as f64),
    Measure("-2s", "bytes", "after 2 s", MIB as f64),
    Measure("-10s", "bytes", "after 10 s", MIB as f64),
    Measure("-trimmed", "bytes", "after trim", MIB as f64),
    Measure("-cpu", "ns", "quiet CPU, ms", 1e6),
];
/// A first look is quiet for less time.
const QUIET_FOR_4S: Measure = Measure("-4s", "bytes", "after 4 s", MIB as f64);

const SHIFT_MEASURES: [Measure; 2] =
    [Measure("", "op/s", "M op/s", 1e6), Measure("-mean", "bytes", "mean, MiB", MIB as f64)];

/// To the best peer: the peak, and the mean where sizes shift.
const PEAK_MAX: f64 = 1.1;
const MEAN_MAX: f64 = 1.1;
/// What may be held above the best peer when all is quiet.
const ALLOWANCE_BYTES: f64 = (8 * MIB) as f64;
/// The mean, to what is in use.
const IN_USE_MAX: f64 = 1.4;
/// How fast a peer is at least whose mean counts, to the fastest contender.
const RATE_MIN: f64 = 0.5;

const COURSES: [(&str, Kind); 7] = [
    ("all/1t", Kind::All { has_second_thread: false }),
    ("all", Kind::All { has_second_thread: true }),
    ("tenth", Kind::Tenth),
    ("foreign", Kind::Foreign),
    ("bursts", Kind::Bursts),
    ("day", Kind::Day),
    ("fork", Kind::Fork),
];
const SMALL: [(&str, Small); 4] = [
    ("small/1m", Small::Blocks { threads: 1, bytes: 1300 << 10, size_max: 256 }),
    ("small/3m", Small::Blocks { threads: 1, bytes: 3 * MIB, size_max: 512 }),
    ("small/lists", Small::Lists),
    ("small/2t", Small::Blocks { threads: 2, bytes: 3 * MIB, size_max: 512 }),
];
/// The most that a small program may have, to glibc's: that much more, or that ratio.
const SMALL_MORE_BYTES: f64 = (MIB / 2) as f64;
const SMALL_MAX: f64 = 1.15;
/// The rows of a first look, with `shift` and `small`.
const FEW: [&str; 2] = ["all/1t", "tenth"];

pub(crate) static TABLE: Table = Table {
    ours: allocators::OURS,
    effort: [Effort { rounds_min: 1, rounds_max: 1, ..Effort::LONG[0] }; 2],
    has_plot: true,
    remarks: |_| {
        "\nMiB above the start: the most, some time after the last free, and after a call that\n\
         gives memory back; then processor time until that call.\n"
            .to_owned()
    },
    ..Table::new("footprint", "memory over time: bursts, frees elsewhere, sizes that shift", cases)
};

fn cases(options: &Options) -> Vec<Case> {
    let is_asked = |part: &str| !options.few || FEW.contains(&part);
    let courses = COURSES.into_iter().filter(|(part, _)| is_asked(part));
    let course = |(part, kind)| {
        let mut measures = MEASURES;
        if options.quick {
            measures[3] = QUIET_FOR_4S;
        }
        case(part, &measures, compare, Course::new(kind, options.quick))
    };
    let phase = Duration::from_secs(if options.quick { 1 } else { 10 });
    let shift = case("shift", &SHIFT_MEASURES, compare_shift, Shift::new(phase));
    let small = SMALL.map(|(part, small)| case(part, &MEASURES[..1], compare_small, small));
    courses.map(course).chain(small).chain([shift]).collect()
}

fn case<W: Workload>(
    part: &str,
    measures: &[Measure],
    compare: fn(&mut Judge<'_>, &str),
    workload: W,
) -> Case {
    let rows = Measure::rows(measures, ("footprint", part), &format!("footprint/{part}"), compare);
    let contenders = allocators::contenders_of_malloc(workload).into_iter();
    let contenders = contenders.filter(|contender| contender.name() != "tcmalloc@perthread");
    let alone = contenders.map(|contender| {
        let name = contender.family;
        contender.in_fresh_child(name)
    });
    Case::new(rows, alone.collect())
}

fn compare(row: &mut Judge<'_>, measure: &str) {
    let peers = allocators::UNSIZED;
    peers.iter().for_each(|peer| row.ratio("malloc", peer));
    let Some(best) = row.best(peers) else { return };
    if matches!(measure, "-0s" | "-trimmed" | "-cpu") || !row.has_all_peers(peers) {
        return;
    }
    if measure.is_empty() {
        row.hold("malloc", best, Some(PEAK_MAX));
        return;
    }
    let both = row.median("malloc").zip(row.median(best));
    let ratio = both.map(|(own, best)| own / (best + ALLOWANCE_BYTES));
    row.limit("malloc", &format!("{best} + 8 MiB"), ratio, 1.0);
}

fn compare_small(row: &mut Judge<'_>, _measure: &str) {
    allocators::UNSIZED.iter().for_each(|peer| row.ratio("malloc", peer));
    let both = row.median("malloc").zip(row.median("glibc"));
    let ratio = both.map(|(own, glibc)| own / (glibc * SMALL_MAX).max(glibc + SMALL_MORE_BYTES));
    row.limit("malloc", "glibc + 0.5 MiB", ratio, 1.0);
}

fn compare_shift(row: &mut Judge<'_>, measure: &str) {
    let peers = allocators::UNSIZED;
    peers.iter().for_each(|peer| row.ratio("malloc", peer));
    if measure != "-mean" || !row.has_all_peers(peers) {
        return;
    }
    let rate = |row: &Judge<'_>, name: &str| {
        row.report.row("footprint/shift", name).map_or(0.0, |figure| figure.summary.median)
    };
    let fastest = peers.iter().chain(&["malloc"]).map(|name| rate(row, name)).fold(0.0, f64::max);
    let mut fast = peers.to_vec();
    fast.retain(|peer| rate(row, peer) >= RATE_MIN * fastest);
    if let Some(best) = row.best(&fast) {
        row.hold("malloc", best, Some(MEAN_MAX));
    }
    let to_in_use = row.median("malloc").map(|own| own / shift::IN_USE_BYTES as f64);
    row.limit("malloc", "128 MiB in use", to_in_use, IN_USE_MAX);
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_footprint.rs"]
mod tests;
