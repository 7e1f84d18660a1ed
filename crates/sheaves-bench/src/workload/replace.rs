//! `replace`: each thread keeps 5,000 objects of 16 to 1016 bytes. Again and again it picks one at
//! random, frees it and allocates another of random size in its place: what a long-running server
//! does to its allocator. Variants `1t`, `2t` and so on say how many threads there are, each with
//! its own objects.
//!
//! The row is one replacement, a free and an allocation, averaged over the threads.

use alloc::sync::Arc;
use std::time::Instant;

use super::crew::{Crew, Gate};
use super::{Job, Table, per_operation, touch};
use crate::contender::{Contender, ours};
use crate::failure::Failure;
use crate::measure::{Sampler, Shuffle, scale};

/// Objects that each thread keeps.
const LIVE: u32 = 5000;
/// Replacements in a sample, each thread.
const REPLACEMENTS: usize = 20_000;
/// Replacements before the clock starts, so that the objects' places are well mixed.
const REPLACEMENTS_UNTIMED: usize = 10_000;

const SIZE_MIN: usize = 16;
const SIZE_STEP: usize = 8;
const SIZE_MAX: usize = ours::MIXED_MAX;
const SIZES: u32 = ((SIZE_MAX - SIZE_MIN) / SIZE_STEP + 1) as u32;

/// One workload for each number of threads up to `threads`.
pub(crate) fn jobs(threads: usize) -> Vec<Job> {
    let job = |threads| Job::new(Table::Replace, format!("{threads}t"), None, threads);
    (1..=threads).map(job).collect()
}

/// An object and its size.
type Entry = (*mut u8, usize);

/// Takes samples of one number: a replacement.
pub(crate) fn sampler<C: Contender>(job: &Job, contender: C) -> Result<Sampler, Failure> {
    let threads = job.threads;
    let crew = Crew::of(threads)?;
    let contender = Arc::new(contender);
    let mut seed = 0;
    Ok(Box::new(move || {
        seed += threads as u64;
        let gate = Gate::new(threads);
        let contender = Arc::clone(&contender);
        let times = crew.run(move |worker| {
            contender.enter_thread();
            let mut random = Shuffle::new(seed + worker as u64);
            let mut entries = fill(&*contender, &mut random);
            gate.pass();
            replace(&*contender, &mut entries, &mut random, REPLACEMENTS_UNTIMED);
            let start = Instant::now();
            replace(&*contender, &mut entries, &mut random, REPLACEMENTS);
            let time = start.elapsed();
            // No thread empties its entries while another is still being timed.
            gate.pass();
            empty(&*contender, &entries);
            time
        });
        Ok(vec![per_operation(times.iter().sum(), REPLACEMENTS * threads)])
    }))
}

#[inline]
fn random_size(bits: u32) -> usize {
    SIZE_MIN + SIZE_STEP * scale(bits, SIZES) as usize
}

fn fill<C: Contender>(contender: &C, random: &mut Shuffle) -> Vec<Entry> {
    let mut entry = || {
        let size = random_size((random.next() >> 32) as u32);
        let object = contender.alloc(size);
        touch(object);
        (object, size)
    };
    (0..LIVE).map(|_| entry()).collect()
}

#[inline(never)]
fn replace<C: Contender>(contender: &C, entries: &mut [Entry], random: &mut Shuffle, count: usize) {
    for _ in 0..count {
        let bits = random.next();
        let entry = &mut entries[scale(bits as u32, LIVE) as usize];
        // SAFETY: the entry holds a live object of that size, which is replaced at once.
        unsafe { contender.free(entry.0, entry.1) };
        let size = random_size((bits >> 32) as u32);
        let object = contender.alloc(size);
        touch(object);
        *entry = (object, size);
    }
}

fn empty<C: Contender>(contender: &C, entries: &[Entry]) {
    for (object, size) in entries {
        // SAFETY: every entry holds a live object of that size.
        unsafe { contender.free(*object, *size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_reach_from_16_to_1016() {
        assert_eq!(random_size(0), 16);
        assert_eq!(random_size(u32::MAX), 1016);
        let mut random = Shuffle::new(1);
        let sizes: std::collections::HashSet<_> =
            (0..100_000).map(|_| random_size((random.next() >> 32) as u32)).collect();
        assert_eq!(sizes.len(), SIZES as usize);
    }

    #[test]
    fn there_is_a_workload_for_each_number_of_threads() {
        let names: Vec<_> = jobs(3).iter().map(Job::name).collect();
        assert_eq!(names, ["replace/1t", "replace/2t", "replace/3t"]);
    }
}
