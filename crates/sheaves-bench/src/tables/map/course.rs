//! A map that grows from nothing, is iterated over, and emptied: entry by entry, and at once.

use alloc::sync::Arc;
use core::ops::Range;
use core::time::Duration;
use std::time::Instant;

use super::mixes::key_of;
use crate::contenders::maps::{Map, Work, value_of};
use crate::harness::{
    Failure, Random, Sampler, SpinBarrier, Workers, per_operation, resident_bytes,
};

/// What a sample lists, in this order.
pub(super) const ROWS: [&str; 4] = ["grow", "iterate", "remove", "clear"];
/// Entries of all maps of a sample together, at least.
const ENTRIES: usize = 64 * 1024;

#[derive(Clone, Copy)]
pub(super) struct Course {
    pub(super) threads: usize,
    pub(super) entries: usize,
}

impl Course {
    /// How many of [`ROWS`] a sample has: only one thread clears.
    pub(super) fn rows(self) -> usize {
        if self.threads == 1 { ROWS.len() } else { ROWS.len() - 1 }
    }
}

impl Work for Course {
    fn sampler<M: Map>(self) -> Result<Sampler, Failure> {
        let Course { threads, entries } = self;
        let workers = Workers::of(threads)?;
        let orders = Arc::new([7, 8].map(|seed| keys_in_order(entries, seed)));
        Ok(Box::new(move || {
            let mut times = [Duration::ZERO; ROWS.len()];
            let maps = ENTRIES.div_ceil(entries);
            for _ in 0..maps {
                let map = Arc::new(M::with_capacity(0));
                let (barrier, orders) = (SpinBarrier::new(threads), Arc::clone(&orders));
                let own = Arc::clone(&map);
                let results = workers.run(move |index| {
                    let share = entries * index / threads..entries * (index + 1) / threads;
                    run(&*own, &orders, share, &barrier)
                });
                for result in results {
                    let own = result.map_err(Failure::run)?;
                    times.iter_mut().zip(own).for_each(|(sum, time)| *sum += time);
                }
                if map.len() != 0 {
                    return Err(Failure::run("a map has kept entries"));
                }
            }
            // Each thread has iterated over all of them.
            let counts = [1, threads, 1, 1].map(|times| times * entries * maps);
            let figures = times.into_iter().zip(counts);
            Ok(figures.map(|(time, count)| per_operation(time, count)).take(self.rows()).collect())
        }))
    }
}

fn keys_in_order(entries: usize, seed: u64) -> Vec<u64> {
    let mut keys: Vec<u64> = (0..entries as u64).map(key_of).collect();
    Random::new(seed).shuffle(&mut keys);
    keys
}

/// What one thread does, with its share of the keys; how long each part took.
fn run<M: Map>(
    map: &M,
    [come, go]: &[Vec<u64>; 2],
    share: Range<usize>,
    barrier: &SpinBarrier,
) -> Result<[Duration; ROWS.len()], &'static str> {
    let timed = |part: &mut dyn FnMut()| {
        barrier.wait();
        let start = Instant::now();
        part();
        let time = start.elapsed();
        barrier.wait();
        time
    };
    let (mut sum, mut removed) = (0_u64, 0);
    let grown = timed(&mut || fill(map, &come[share.clone()]));
    let iterated = timed(&mut || sum = sum_of(map));
    let emptied = timed(&mut || removed = empty(map, &go[share.clone()]));
    let mut cleared = Duration::ZERO;
    if share.len() == come.len() {
        fill(map, come);
        cleared = timed(&mut || map.clear());
    }
    if come.iter().map(|key| value_of(*key)).fold(0, u64::wrapping_add) != sum {
        return Err("an iteration found wrong values");
    }
    if removed != share.len() {
        return Err("a map has lost entries");
    }
    Ok([grown, iterated, emptied, cleared])
}

#[inline(never)]
pub(super) fn fill<M: Map>(map: &M, keys: &[u64]) {
    keys.iter().for_each(|key| map.insert(*key, value_of(*key), &map.guard()));
}

#[inline(never)]
fn sum_of<M: Map>(map: &M) -> u64 {
    let mut sum = 0_u64;
    map.each(&map.guard(), |value| sum = sum.wrapping_add(value));
    sum
}

/// Removes these keys; returns how many were there.
#[inline(never)]
fn empty<M: Map>(map: &M, keys: &[u64]) -> usize {
    keys.iter().filter(|key| map.remove(**key, &map.guard())).count()
}

/// What resident memory grows by while a map does, in a process of its own.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    pub(super) entries: usize,
}

impl Work for Memory {
    fn sampler<M: Map>(self) -> Result<Sampler, Failure> {
        let keys = keys_in_order(self.entries, 7);
        Ok(Box::new(move || {
            let before = resident_bytes();
            let map = M::with_capacity(0);
            fill(&map, &keys);
            let grown = resident_bytes().saturating_sub(before);
            let is_right = map.len() == keys.len();
            let figure = grown as f64 / keys.len() as f64;
            is_right.then(|| vec![figure]).ok_or_else(|| Failure::run("a map has lost entries"))
        }))
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_map_course.rs"]
pub(super) mod tests;
