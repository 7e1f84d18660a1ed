//! `replace`: each thread keeps 5,000 objects of 16 to 1016 bytes. Again and again it picks one at
//! random, frees it and allocates another of random size in its place: what a long-running server
//! does to its allocator. Variants `1t`, `2t` and so on say how many threads there are, each with
//! its own objects.
//!
//! A row is one replacement, a free and an allocation, averaged over the threads. The contenders
//! are the [`allocators`], with sizes mixed.

use alloc::sync::Arc;

use crate::contenders::allocators::library::MIXED_MAX;
use crate::contenders::allocators::replacing::Replacing;
use crate::contenders::allocators::{self, Allocator, Bars, Workload};
use crate::harness::{Case, Failure, Row, Sampler, Table, scale};

const LIVE: usize = 5000;
/// Replacements in a sample, each thread.
const REPLACEMENTS: usize = 20_000;
/// Replacements before the clock starts, so that the objects' places are well mixed.
const REPLACEMENTS_UNTIMED: usize = 10_000;

const SIZE_MIN: usize = 16;
const SIZE_STEP: usize = 8;
const SIZES: u32 = ((MIXED_MAX - SIZE_MIN) / SIZE_STEP + 1) as u32;

pub(crate) static TABLE: Table = Table {
    ours: allocators::OURS,
    ..Table::new(
        "replace",
        "replace random objects of 16 to 1016 bytes, with 1 to --threads threads",
        |options| (1..=options.threads).map(case).collect(),
    )
};

fn case(threads: usize) -> Case {
    let bar = (threads == 2).then_some(0.90);
    let bars = Bars { sized: bar, malloc: bar, ..Bars::default() };
    let row = Row::new(format!("replace/{threads}t"));
    allocators::case(vec![(row, bars)], None, Replacements { threads })
}

#[derive(Clone, Copy)]
struct Replacements {
    threads: usize,
}

impl Workload for Replacements {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let replacing = Replacing::<_, false> {
            threads: self.threads,
            live: LIVE,
            size_of: random_size,
            handed_over: 0,
        };
        let allocator = Arc::new(allocator);
        let mut seed = 0;
        Ok(Box::new(move || {
            seed += self.threads as u64;
            let counts = (REPLACEMENTS_UNTIMED, REPLACEMENTS);
            Ok(vec![replacing.time(&allocator, counts, seed)?])
        }))
    }
}

#[inline]
fn random_size(bits: u32) -> usize {
    SIZE_MIN + SIZE_STEP * scale(bits, SIZES) as usize
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_replace.rs"]
mod tests;
