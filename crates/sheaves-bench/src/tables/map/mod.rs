//! `map`: many threads at one hash map of numbers.
//!
//! | row | entries | operations |
//! |---|---|---|
//! | `read-99/Nt/ENTRIES` | all keys | 99 % lookups, 1 % replace a value |
//! | `mixed-90/Nt/ENTRIES` | half of the keys | 90 % lookups, 5 % insert, 5 % remove |
//! | `write-50/Nt/ENTRIES` | half of the keys | 50 % lookups, 25 % insert, 25 % remove |
//! | `grow/Nt/ENTRIES` | from none to all | each thread inserts its share, in random order |
//!
//! Behind `map/`, a row is one operation, averaged over the threads. Keys and values are numbers of
//! 64 bits; each key is as likely as any other. Maps have their capacity from the start, but in
//! `grow`. What a lookup finds is compared with what belongs there.
//!
//! Contenders are `rcu-map`, the library's, `papaya` and `dashmap`, all with foldhash. They enter
//! and leave a section for each operation; `rcu-map-held` and `papaya-held` hold one guard for 64.
//! The library's map allocates from its own heap, the others from glibc's.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use crate::contenders::maps::{Dash, Map, Ours, Papaya, value_of};
use crate::harness::{
    Case, Contender, Failure, Options, Random, Row, Sampler, Sizes, SpinBarrier, Table, Workers,
    per_operation, scale,
};

/// Operations of each thread in a sample.
const OPERATIONS: usize = 64 * 1024;
/// Operations before the clock starts, and after.
const OPERATIONS_UNTIMED: usize = 1024;

const ENTRIES: [usize; 2] = [10_000, 1_000_000];

/// Operations for which `-held` holds a guard.
const HELD: usize = 64;

pub(crate) static TABLE: Table = Table {
    ours: &["rcu-map", "rcu-map-held"],
    sizes: Some(Sizes {
        full: &ENTRIES,
        quick: &ENTRIES,
        range: 64..=100_000_000,
        unit: "entries",
    }),
    ..Table::new(
        "map",
        "1 to --threads threads at one hash map; --sizes are numbers of entries",
        cases,
    )
};

fn cases(options: &Options) -> Vec<Case> {
    let of = |mix: Option<Mix>| {
        let all = (1..=options.threads)
            .flat_map(|threads| options.sizes.iter().map(move |entries| (threads, *entries)));
        all.map(move |(threads, entries)| case(Load { mix, threads, entries }))
    };
    MIXES.into_iter().map(Some).chain([None]).flat_map(of).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mix {
    name: &'static str,
    /// Lookups in 1024 operations.
    lookups: u64,
    /// Whether entries go, as many as come.
    removes: bool,
}

const MIXES: [Mix; 3] = [
    Mix { name: "read-99", lookups: 1014, removes: false },
    Mix { name: "mixed-90", lookups: 922, removes: true },
    Mix { name: "write-50", lookups: 512, removes: true },
];

#[derive(Clone, Copy)]
struct Load {
    /// None: the map grows from empty.
    mix: Option<Mix>,
    threads: usize,
    entries: usize,
}

fn case(load: Load) -> Case {
    let part = load.mix.map_or("grow", |mix| mix.name);
    let row = Row::sized(&format!("map/{part}/{}t", load.threads), load.entries);
    let contenders = vec![
        Contender::new("rcu-map", move || load.sampler::<Ours, 1>()),
        Contender::new("rcu-map-held", move || load.sampler::<Ours, HELD>()),
        Contender::new("papaya", move || load.sampler::<Papaya, 1>()),
        Contender::new("papaya-held", move || load.sampler::<Papaya, HELD>()),
        Contender::new("dashmap", move || load.sampler::<Dash, 1>()),
    ];
    let row = row.compared(|row| {
        row.compare("rcu-map", "papaya", None);
        row.compare("rcu-map", "dashmap", None);
        row.compare("rcu-map-held", "papaya-held", None);
    });
    Case::new(vec![row], contenders)
}

impl Load {
    /// `EACH` is the number of operations for which a guard is held.
    fn sampler<M: Map, const EACH: usize>(self) -> Result<Sampler, Failure> {
        match self.mix {
            Some(mix) => operations::<M, EACH>(mix, self.threads, self.entries),
            None => growth::<M, EACH>(self.threads, self.entries),
        }
    }
}

/// A key's place among all keys, spread over all numbers, so that neighbours are none.
#[inline(always)]
fn key_of(index: u64) -> u64 {
    index.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn operations<M: Map, const EACH: usize>(
    mix: Mix,
    threads: usize,
    entries: usize,
) -> Result<Sampler, Failure> {
    let contender = M::with_capacity(entries);
    let guard = contender.guard();
    // Where entries come and go there are twice as many keys, of which half are there.
    let (keys, step) = if mix.removes { (entries * 2, 2) } else { (entries, 1) };
    for index in (0..keys as u64).step_by(step) {
        contender.insert(key_of(index), value_of(key_of(index)), &guard);
    }
    drop(guard);
    let (contender, workers) = (Arc::new(contender), Workers::of(threads)?);
    let seeds = AtomicU64::new(1);
    Ok(Box::new(move || {
        let wrong = Arc::new(AtomicUsize::new(0));
        let (contender, all_wrong) = (Arc::clone(&contender), Arc::clone(&wrong));
        // Relaxed, here and below: numbers.
        let seed = seeds.fetch_add(threads as u64, Ordering::Relaxed);
        let time = workers.time(OPERATIONS_UNTIMED, OPERATIONS, move |index| {
            let (contender, all_wrong) = (Arc::clone(&contender), Arc::clone(&all_wrong));
            let mut random = Random::new(seed + index as u64);
            move |count| {
                let wrong = operate::<M, EACH>(&*contender, mix, keys as u32, &mut random, count);
                all_wrong.fetch_add(wrong, Ordering::Relaxed);
            }
        });
        if wrong.load(Ordering::Relaxed) > 0 {
            return Err(Failure::run("a lookup found a wrong value"));
        }
        Ok(vec![time])
    }))
}

/// Random operations; how many lookups found what does not belong there, or missed what does.
#[inline(never)]
fn operate<M: Map, const EACH: usize>(
    contender: &M,
    mix: Mix,
    keys: u32,
    random: &mut Random,
    count: usize,
) -> usize {
    let mut wrong = 0;
    for _ in 0..count / EACH {
        let guard = contender.guard();
        for _ in 0..EACH {
            let bits = random.next();
            let key = key_of(u64::from(scale((bits >> 32) as u32, keys)));
            if bits % 1024 < mix.lookups {
                match contender.get(key, &guard) {
                    Some(value) => wrong += usize::from(value != value_of(key)),
                    None => wrong += usize::from(!mix.removes),
                }
            } else if mix.removes && bits & 1024 != 0 {
                contender.remove(key, &guard);
            } else {
                contender.insert(key, value_of(key), &guard);
            }
        }
    }
    wrong
}

fn growth<M: Map, const EACH: usize>(threads: usize, entries: usize) -> Result<Sampler, Failure> {
    let workers = Workers::of(threads)?;
    let mut keys: Vec<u64> = (0..entries as u64).map(key_of).collect();
    Random::new(7).shuffle(&mut keys);
    let keys: Arc<[u64]> = keys.into();
    Ok(Box::new(move || {
        let contender = Arc::new(M::with_capacity(0));
        let (barrier, keys) = (SpinBarrier::new(threads), Arc::clone(&keys));
        let map = Arc::clone(&contender);
        let times = workers.run(move |index| {
            let share = entries * index / threads..entries * (index + 1) / threads;
            barrier.wait();
            let start = Instant::now();
            fill::<M, EACH>(&*map, &keys[share]);
            start.elapsed()
        });
        if contender.len() != entries {
            return Err(Failure::run(format!("{} of {entries} are there", contender.len())));
        }
        Ok(vec![per_operation(times.iter().sum(), entries)])
    }))
}

#[inline(never)]
fn fill<M: Map, const EACH: usize>(contender: &M, keys: &[u64]) {
    for keys in keys.chunks(EACH) {
        let guard = contender.guard();
        for key in keys {
            contender.insert(*key, value_of(*key), &guard);
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_map.rs"]
mod tests;
