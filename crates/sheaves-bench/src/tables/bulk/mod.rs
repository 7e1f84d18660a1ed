//! `bulk`: loops of 1,000 objects of 32, 48, 80 and 112 bytes in turn, each of which is deferred at
//! once and not touched, with one and with two threads: rows `1t` and `2t`.
//!
//! It is the kernel's performance test of `kfree_rcu` with `kfree_vary_obj_size`, the benchmark
//! behind the published result of 2020: with fewer loops, and without a nice value. The time is
//! that of the thread that ends last, as there, and does not wait for what is deferred.
//!
//! The footprint is weighted as there: it is looked at in the first loop and after each quarter but
//! the last, and each look counts as much as all before. It is taken once of the bytes that are
//! deferred (`bulk-footprint`), in the run that is timed, and once of the resident memory of the
//! process (`bulk-resident`), in a run before it that begins with all free memory given back. The
//! other rows are those of `dispose`.
//!
//! | contender | how the objects are freed |
//! |---|---|
//! | `sheaves` | `Cache::free_rcu`: one push into the slot's deferred sheaf |
//! | `bulk` | noted in pages of 510 pointers, freed a page at a time |
//! | `per-object` | linked by 16 bytes within them, freed one by one |
//! | `per-object+glibc` | the same with glibc's malloc |
//!
//! All but the first collect for 20 ms on each CPU, then a thread of that CPU waits for readers and
//! frees, as Linux did in 2020.

mod contenders;

use alloc::sync::Arc;
use core::time::Duration;
use std::time::Instant;

use crate::contenders::deferral::{self, Deferral, Settled};
use crate::contenders::deferred_bytes;
use crate::harness::{
    Case, Contender, Effort, Failure, Judge, Measure, Sampler, Table, Workers, resident_bytes,
};
use contenders::{Caches, GROUP_BYTES, Malloc, RcuSheaves, SIZES, start};
use sheaves_history::kfree_rcu::{Linked, Pages};

/// What is measured of a case; each sample lists these in their order.
const MEASURES: [Measure; 6] = [
    Measure("", "ns/op", "ns", 1.0),
    Measure("-settled", "ns", "all free, us", 1000.0),
    Measure("-footprint", "bytes", "footprint, KiB", 1024.0),
    Measure("-resident", "bytes", "resident, KiB", 1024.0),
    Measure("-outstanding", "bytes", "at the end, KiB", 1024.0),
    Measure("-periods", "grace periods", "periods", 1.0),
];

/// Loops of a thread, a multiple of 4: enough for a dozen of the 20 ms that some collect for. Tests
/// of a debug build look at what comes out, not at how long it takes.
const LOOPS: usize = if cfg!(debug_assertions) { 2000 } else { 20_000 };
const OBJECTS: usize = 1000;
/// Groups of one object of each size in a loop.
const GROUPS: usize = OBJECTS / SIZES.len();

/// How much faster than frees one by one: the figure published for Linux.
const SPEEDUP: f64 = 2.23;
/// Footprint, to that of frees one by one.
const FOOTPRINT: f64 = 0.66;

pub(crate) static TABLE: Table = Table {
    ours: &["sheaves", "bulk"],
    effort: Effort::LONG,
    remarks: |_| {
        "\nNanoseconds for each object; microseconds from the end of that until all is free; what\n\
         was deferred and what memory grew by, in the mean and at that end; grace periods\n\
         meanwhile. All are medians.\n"
            .to_owned()
    },
    ..Table::new("bulk", "defer the frees of thousands of objects of four sizes: 1t, 2t", |_| {
        vec![case(1), case(2)]
    })
};

fn case(threads: usize) -> Case {
    let variant = format!("{threads}t");
    let rows = Measure::rows(&MEASURES, ("bulk", &variant), &format!("bulk/{variant}"), compare);
    Case::new(rows, contenders_of(threads))
}

fn contenders_of(threads: usize) -> Vec<Contender> {
    let caches = || Ok::<_, Failure>(Caches(contenders::make_caches()?));
    vec![
        Contender::new("sheaves", move || {
            sampler(RcuSheaves { caches: contenders::make_caches()? }, threads)
        }),
        Contender::new("bulk", move || sampler(start::<_, Pages>(caches()?)?, threads)),
        Contender::new("per-object", move || sampler(start::<_, Linked>(caches()?)?, threads)),
        Contender::new("per-object+glibc", move || sampler(start::<_, Linked>(Malloc)?, threads)),
    ]
}

fn compare(row: &mut Judge<'_>, measure: &str) {
    match measure {
        "" => {
            row.compare("bulk", "per-object", None);
            // Where our own free is so cheap that the first cannot be, the second is asked for.
            for to in ["per-object", "per-object+glibc"] {
                row.hold("sheaves", to, Some(1.0 / SPEEDUP));
                let own = row.median("sheaves").zip(row.median(to));
                if own.is_some_and(|(own, other)| own / other <= 1.0 / SPEEDUP) {
                    break;
                }
            }
        }
        "-footprint" | "-resident" => {
            row.compare("sheaves", "per-object", Some(FOOTPRINT));
            row.compare("bulk", "per-object", None);
            row.compare("sheaves", "per-object+glibc", None);
        }
        _ => {}
    }
}

fn sampler<C: Deferral>(contender: C, threads: usize) -> Result<Sampler, Failure> {
    let workers = Workers::of(threads)?;
    let contender = Arc::new(contender);
    Ok(Box::new(move || {
        let _lock = deferred_bytes::lock();
        contenders::trim();
        let (cold, _) = run(&workers, &contender, |_| resident_bytes())?;
        let (warm, settled) = run(&workers, &contender, C::outstanding)?;
        Ok(vec![
            warm.time.as_nanos() as f64 / (LOOPS * OBJECTS) as f64,
            settled.time.as_nanos() as f64,
            warm.footprint,
            cold.footprint,
            settled.outstanding as f64,
            settled.periods.unwrap_or(0) as f64,
        ])
    }))
}

#[derive(Clone, Copy, Debug)]
struct Worked {
    end: Instant,
    time: Duration,
    footprint: f64,
}

/// One run, with whatever the footprint is to be of: the thread that ended last counts.
fn run<C: Deferral>(
    workers: &Workers,
    contender: &Arc<C>,
    look: fn(&C) -> u64,
) -> Result<(Worked, Settled), Failure> {
    let (worked, settled) = deferral::sample(workers, contender, move |contender, start| {
        start();
        work(contender, look)
    })?;
    let last = worked.into_iter().max_by_key(|worked| worked.end);
    last.map(|last| (last, settled)).ok_or_else(|| Failure::run("no thread has worked"))
}

fn work<C: Deferral>(contender: &C, look: fn(&C) -> u64) -> Worked {
    let mut footprint = Footprint::default();
    let begin = Instant::now();
    for index in 0..LOOPS {
        if index % (LOOPS / 4) == 0 {
            footprint.add(look(contender) as f64);
        }
        if C::COUNTS {
            deferred_bytes::add_deferred(GROUPS * GROUP_BYTES);
        }
        contender.repeat(GROUPS);
    }
    let end = Instant::now();
    Worked { end, time: end - begin, footprint: footprint.grown() }
}

/// The mean in which each look counts as much as all before.
#[derive(Clone, Copy, Debug, Default)]
struct Footprint {
    looks: Option<(f64, f64)>,
}

impl Footprint {
    fn add(&mut self, bytes: f64) {
        let (first, mean) = self.looks.unwrap_or((bytes, bytes));
        self.looks = Some((first, f64::midpoint(mean, bytes)));
    }

    /// How much more it was than at the first look; 0 for less.
    fn grown(self) -> f64 {
        self.looks.map_or(0.0, |(first, mean)| (mean - first).max(0.0))
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_bulk.rs"]
mod tests;
