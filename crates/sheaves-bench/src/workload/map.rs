//! `map`: many threads at one hash map of numbers.
//!
//! | row | entries | operations |
//! |---|---|---|
//! | `read-99/Nt` | all keys | 99 % lookups, 1 % replace a value |
//! | `mixed-90/Nt` | half of the keys | 90 % lookups, 5 % insert, 5 % remove |
//! | `write-50/Nt` | half of the keys | 50 % lookups, 25 % insert, 25 % remove |
//! | `grow/Nt` | from none to all | each thread inserts its share of the keys, in random order |
//!
//! The row is one operation, averaged over the threads. Keys are random, each as likely as any
//! other. What a lookup finds is compared with what belongs there.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

use super::crew::{Crew, Gate};
use super::{Job, Table, per_operation};
use crate::contender::Kind;
use crate::contender::map::{self, Map, value_of};
use crate::failure::Failure;
use crate::measure::{Sampler, Shuffle};

/// Entries of a run.
pub(crate) const ENTRIES: [usize; 2] = [10_000, 1_000_000];
/// Entries that can be asked for.
pub(crate) const ENTRIES_RANGE: core::ops::RangeInclusive<usize> = 64..=100_000_000;

/// Operations of each thread in a sample.
const OPERATIONS: usize = 64 * 1024;
/// Operations before the clock starts, and after.
const OPERATIONS_UNTIMED: usize = 1024;

/// What the threads do.
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
const GROW: &str = "grow";

/// One workload for each mix, number of threads up to `threads`, and number of entries.
pub(crate) fn jobs(sizes: &[usize], threads: usize) -> Vec<Job> {
    let parts = MIXES.iter().map(|mix| mix.name).chain([GROW]);
    let each = |part: &'static str| {
        (1..=threads).flat_map(move |threads| {
            let job = move |size: &usize| {
                Job::new(Table::Map, format!("{part}/{threads}t"), *size, threads)
            };
            sizes.iter().map(job)
        })
    };
    parts.flat_map(each).collect()
}

/// Takes samples of one number: an operation.
pub(crate) fn sampler(job: &Job, kind: Kind) -> Result<Sampler, Failure> {
    map::visit(kind, Prepare { job })?
}

struct Prepare<'a> {
    job: &'a Job,
}

impl map::Visitor for Prepare<'_> {
    type Out = Result<Sampler, Failure>;

    fn visit<M: Map>(self) -> Self::Out {
        let (threads, entries) = (self.job.threads, self.job.size.unwrap_or(ENTRIES[0]));
        let part = self.job.variant.split('/').next().unwrap_or_default();
        match MIXES.into_iter().find(|mix| mix.name == part) {
            Some(mix) => operations::<M>(mix, threads, entries),
            None => growth::<M>(threads, entries),
        }
    }
}

/// A key's place among all keys, spread over all numbers, so that neighbours are none.
#[inline(always)]
fn key_of(index: u64) -> u64 {
    index.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn operations<M: Map>(mix: Mix, threads: usize, entries: usize) -> Result<Sampler, Failure> {
    let contender = M::with_capacity(entries);
    let guard = contender.guard();
    // Where entries come and go there are twice as many keys, of which half are there.
    let (keys, step) = if mix.removes { (entries * 2, 2) } else { (entries, 1) };
    for index in (0..keys as u64).step_by(step) {
        contender.insert(key_of(index), value_of(key_of(index)), &guard);
    }
    drop(guard);
    let (contender, crew) = (Arc::new(contender), Crew::of(threads)?);
    let seeds = AtomicU64::new(1);
    Ok(Box::new(move || {
        let (contender, gate) = (Arc::clone(&contender), Gate::new(threads));
        // Relaxed: a number.
        let seed = seeds.fetch_add(threads as u64, Ordering::Relaxed);
        let times = crew.run(move |index| {
            let mut random = Shuffle::new(seed + index as u64);
            let mut run = |count| operate(&*contender, mix, keys as u32, &mut random, count);
            let mut wrong = run(OPERATIONS_UNTIMED);
            gate.pass();
            let start = Instant::now();
            wrong += run(OPERATIONS);
            let time = start.elapsed();
            // No thread stops while another is still being timed beside it.
            wrong += run(OPERATIONS_UNTIMED);
            gate.pass();
            if wrong == 0 { Ok(time) } else { Err(Failure::run("a lookup found a wrong value")) }
        });
        let times = times.into_iter().collect::<Result<Vec<Duration>, Failure>>()?;
        Ok(vec![per_operation(times.iter().sum(), OPERATIONS * threads)])
    }))
}

/// Random operations; how many lookups found what does not belong there, or missed what does.
#[inline(never)]
fn operate<M: Map>(
    contender: &M,
    mix: Mix,
    keys: u32,
    random: &mut Shuffle,
    count: usize,
) -> usize {
    let mut wrong = 0;
    for _ in 0..count / M::OPERATIONS {
        let guard = contender.guard();
        for _ in 0..M::OPERATIONS {
            let bits = random.next();
            let key = key_of(u64::from(crate::measure::scale((bits >> 32) as u32, keys)));
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

fn growth<M: Map>(threads: usize, entries: usize) -> Result<Sampler, Failure> {
    let crew = Crew::of(threads)?;
    let mut keys: Vec<u64> = (0..entries as u64).map(key_of).collect();
    Shuffle::new(7).shuffle(&mut keys);
    let keys: Arc<[u64]> = keys.into();
    Ok(Box::new(move || {
        let contender = Arc::new(M::with_capacity(0));
        let (gate, keys) = (Gate::new(threads), Arc::clone(&keys));
        let map = Arc::clone(&contender);
        let times = crew.run(move |index| {
            let share = entries * index / threads..entries * (index + 1) / threads;
            gate.pass();
            let start = Instant::now();
            fill(&*map, &keys[share]);
            start.elapsed()
        });
        if contender.len() != entries {
            return Err(Failure::run(format!("{} of {entries} are there", contender.len())));
        }
        Ok(vec![per_operation(times.iter().sum(), entries)])
    }))
}

#[inline(never)]
fn fill<M: Map>(contender: &M, keys: &[u64]) {
    for keys in keys.chunks(M::OPERATIONS) {
        let guard = contender.guard();
        for key in keys {
            contender.insert(*key, value_of(*key), &guard);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_named_by_mix_threads_and_entries() {
        let names: Vec<_> = jobs(&[64, 1000], 2).iter().map(Job::name).collect();
        assert_eq!(names.len(), 16);
        for name in ["map/read-99/1t/64", "map/write-50/2t/1000", "map/grow/2t/64"] {
            assert!(names.iter().any(|known| known == name), "{name} is missing in {names:?}");
        }
    }

    #[test]
    fn mixes_are_what_they_say() {
        let shares = MIXES.map(|mix| (mix.lookups * 100).div_ceil(1024));
        assert_eq!(shares, [100, 91, 50]);
        assert_eq!((1024 - MIXES[0].lookups, 1024 - MIXES[1].lookups), (10, 102));
    }

    #[test]
    fn a_wrong_value_is_noticed() {
        struct Wrong;
        impl map::Visitor for Wrong {
            type Out = usize;
            fn visit<M: Map>(self) -> usize {
                let map = M::with_capacity(0);
                (0..64).for_each(|index| map.insert(key_of(index), 1, &map.guard()));
                let mix = Mix { lookups: 1024, ..MIXES[0] };
                operate(&map, mix, 64, &mut Shuffle::new(1), 640)
            }
        }
        assert_eq!(map::visit(Kind::RcuMap, Wrong).unwrap(), 640);
        assert_eq!(map::visit(Kind::DashMap, Wrong).unwrap(), 640);
    }
}
