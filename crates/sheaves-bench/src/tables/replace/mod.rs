//! `replace`: each thread keeps 5,000 objects of 16 to 1016 bytes. Again and again it picks one at
//! random, frees it and allocates another of random size in its place: what a long-running server
//! does to its allocator. Variants `1t`, `2t` and so on say how many threads there are, each with
//! its own objects.
//!
//! A row is one replacement, a free and an allocation, averaged over the threads. The contenders
//! are the [`allocators`], with sizes mixed.

use alloc::sync::Arc;

use crate::contenders::allocators::library::MIXED_MAX;
use crate::contenders::allocators::{self, Allocator, Bars, Workload, touch};
use crate::harness::failure::Failure;
use crate::harness::measure::Sampler;
use crate::harness::random::{Random, scale};
use crate::harness::table::{Case, Row, Table};
use crate::harness::workers::Workers;

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
            let allocator = Arc::clone(&allocator);
            let time = workers.time(REPLACEMENTS_UNTIMED, REPLACEMENTS, move |worker| {
                allocator.enter_thread();
                let mut random = Random::new(seed + worker as u64);
                let entries = fill(&*allocator, &mut random);
                let mut set = Set { allocator: Arc::clone(&allocator), entries, random };
                move |count| set.replace(count)
            });
            Ok(vec![time])
        }))
    }
}

/// The objects of one thread.
struct Set<A: Allocator> {
    allocator: Arc<A>,
    entries: Vec<Entry>,
    random: Random,
}

impl<A: Allocator> Set<A> {
    #[inline(never)]
    fn replace(&mut self, count: usize) {
        for _ in 0..count {
            let bits = self.random.next();
            let entry = &mut self.entries[scale(bits as u32, LIVE) as usize];
            // SAFETY: the entry holds a live object of that size, which is replaced at once.
            unsafe { self.allocator.free(entry.0, entry.1) };
            *entry = allocate(&*self.allocator, (bits >> 32) as u32);
        }
    }
}

impl<A: Allocator> Drop for Set<A> {
    fn drop(&mut self) {
        for (object, size) in &self.entries {
            // SAFETY: every entry holds a live object of that size.
            unsafe { self.allocator.free(*object, *size) };
        }
    }
}

#[inline]
fn random_size(bits: u32) -> usize {
    SIZE_MIN + SIZE_STEP * scale(bits, SIZES) as usize
}

/// An object of random size.
#[inline]
fn allocate<A: Allocator>(allocator: &A, bits: u32) -> Entry {
    let size = random_size(bits);
    let object = allocator.alloc(size);
    touch(object);
    (object, size)
}

fn fill<A: Allocator>(allocator: &A, random: &mut Random) -> Vec<Entry> {
    (0..LIVE).map(|_| allocate(allocator, (random.next() >> 32) as u32)).collect()
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_replace.rs"]
mod tests;
