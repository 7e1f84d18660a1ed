//! `replace`: each thread keeps 5,000 objects of 16 to 1016 bytes. Again and again it picks one at
//! random, frees it and allocates another of random size in its place: what a long-running server
//! does to its allocator. Variants `1t`, `2t` and so on say how many threads there are, each with
//! its own objects.
//!
//! A row is one replacement, a free and an allocation, averaged over the threads. The contenders
//! are the [`allocators`], with sizes mixed.

use alloc::sync::Arc;
use std::time::Instant;

use crate::contenders::allocators::library::MIXED_MAX;
use crate::contenders::allocators::{self, Allocator, Bars, Workload, touch};
use crate::harness::failure::Failure;
use crate::harness::measure::{Sampler, per_operation};
use crate::harness::random::{Random, scale};
use crate::harness::table::{Case, Row, Table};
use crate::harness::workers::{SpinBarrier, Workers};

/// Objects that each thread keeps.
const LIVE: u32 = 5000;
/// Replacements in a sample, each thread.
const REPLACEMENTS: usize = 20_000;
/// Replacements before the clock starts, so that the objects' places are well mixed.
const REPLACEMENTS_UNTIMED: usize = 10_000;

const SIZE_MIN: usize = 16;
const SIZE_STEP: usize = 8;
const SIZES: u32 = ((MIXED_MAX - SIZE_MIN) / SIZE_STEP + 1) as u32;

pub(crate) static TABLE: Table = Table::new(
    "replace",
    "replace random objects of 16 to 1016 bytes, with 1 to --threads threads",
    |options| (1..=options.threads).map(case).collect(),
);

fn case(threads: usize) -> Case {
    let bar = (threads == 2).then_some(0.90);
    let bars = Bars { sized: bar, malloc: bar, ..Bars::default() };
    let row = Row::new(format!("replace/{threads}t"));
    allocators::case(vec![(row, bars)], None, Replacements { threads })
}

/// An object and its size.
type Entry = (*mut u8, usize);

/// Threads that replace objects of their own.
#[derive(Clone, Copy)]
struct Replacements {
    threads: usize,
}

impl Workload for Replacements {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let threads = self.threads;
        let workers = Workers::of(threads)?;
        let allocator = Arc::new(allocator);
        let mut seed = 0;
        Ok(Box::new(move || {
            seed += threads as u64;
            let barrier = SpinBarrier::new(threads);
            let allocator = Arc::clone(&allocator);
            let times = workers.run(move |worker| {
                allocator.enter_thread();
                let mut random = Random::new(seed + worker as u64);
                let mut entries = fill(&*allocator, &mut random);
                barrier.wait();
                replace(&*allocator, &mut entries, &mut random, REPLACEMENTS_UNTIMED);
                let start = Instant::now();
                replace(&*allocator, &mut entries, &mut random, REPLACEMENTS);
                let time = start.elapsed();
                // No thread empties its entries while another is still being timed.
                barrier.wait();
                empty(&*allocator, &entries);
                time
            });
            Ok(vec![per_operation(times.iter().sum(), REPLACEMENTS * threads)])
        }))
    }
}

#[inline]
fn random_size(bits: u32) -> usize {
    SIZE_MIN + SIZE_STEP * scale(bits, SIZES) as usize
}

fn fill<A: Allocator>(allocator: &A, random: &mut Random) -> Vec<Entry> {
    let mut entry = || {
        let size = random_size((random.next() >> 32) as u32);
        let object = allocator.alloc(size);
        touch(object);
        (object, size)
    };
    (0..LIVE).map(|_| entry()).collect()
}

#[inline(never)]
fn replace<A: Allocator>(allocator: &A, entries: &mut [Entry], random: &mut Random, count: usize) {
    for _ in 0..count {
        let bits = random.next();
        let entry = &mut entries[scale(bits as u32, LIVE) as usize];
        // SAFETY: the entry holds a live object of that size, which is replaced at once.
        unsafe { allocator.free(entry.0, entry.1) };
        let size = random_size((bits >> 32) as u32);
        let object = allocator.alloc(size);
        touch(object);
        *entry = (object, size);
    }
}

fn empty<A: Allocator>(allocator: &A, entries: &[Entry]) {
    for (object, size) in entries {
        // SAFETY: every entry holds a live object of that size.
        unsafe { allocator.free(*object, *size) };
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_replace.rs"]
mod tests;
