//! Small programs: the most memory that they have, with what the allocator itself needs.

use alloc::sync::Arc;
use core::ptr::null_mut;
use std::sync::Mutex;

use super::blocks::{Blocks, own};
use crate::contenders::allocators::{Allocator, Workload, touch};
use crate::harness::{
    Failure, Random, Sampler, Workers, peak_bytes, reset_peak, resident_bytes, scale,
};

/// Replacements of blocks, or of lists.
const STEPS: usize = 1_000_000;
const LISTS: usize = 9000;
const NODES_MAX: u32 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Small {
    /// Each of that many threads replaces blocks of 16 bytes to `size_max` at random, and has
    /// `bytes` in use.
    Blocks { threads: usize, bytes: usize, size_max: u32 },
    /// One thread replaces lists of 0 to 7 nodes of 16 to 64 bytes.
    Lists,
}

impl Small {
    fn run<A: Allocator>(self, allocator: &A, blocks: &mut Blocks<A>, lists: &mut Lists) {
        match self {
            Small::Blocks { bytes, size_max, .. } => (0..STEPS).for_each(|_| {
                blocks.replace(bytes, |bits| 16 + scale(bits, size_max - 15) as usize);
            }),
            Small::Lists => (0..STEPS).for_each(|_| lists.replace(allocator)),
        }
    }
}

impl Workload for Small {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let (threads, capacity) = match self {
            Small::Blocks { threads, bytes, .. } => (threads, bytes / 64),
            Small::Lists => (1, 1),
        };
        let allocator = Arc::new(allocator);
        let workers = Workers::of(threads)?;
        let own_of = |seed| (Blocks::new(Arc::clone(&allocator), capacity, seed), Lists::new());
        let sets: Arc<Vec<_>> = Arc::new((0..threads as u64).map(own_of).map(Mutex::new).collect());
        Ok(Box::new(move || {
            let before = resident_bytes();
            reset_peak()?;
            let (sets, allocator) = (Arc::clone(&sets), Arc::clone(&allocator));
            workers.run(move |worker| {
                allocator.enter_thread();
                let mut set = own(&sets[worker]);
                let (blocks, lists) = &mut *set;
                self.run(&*allocator, blocks, lists);
                lists.clear(&*allocator);
                blocks.free_all_but(0);
            });
            Ok(vec![peak_bytes().saturating_sub(before) as f64])
        }))
    }
}

/// The head of a node: the next one, and the node's bytes.
struct Node(*mut Node, usize);

struct Lists {
    heads: Vec<*mut Node>,
    random: Random,
}

// SAFETY: the lists are owned.
unsafe impl Send for Lists {}

impl Lists {
    fn new() -> Lists {
        Lists { heads: vec![null_mut(); LISTS], random: Random::new(1) }
    }

    fn replace<A: Allocator>(&mut self, allocator: &A) {
        let place = self.random.below(LISTS as u32) as usize;
        self.free(place, allocator);
        for _ in 0..self.random.below(NODES_MAX + 1) {
            let bytes = 16 + self.random.below(49) as usize;
            let node = allocator.alloc(bytes);
            touch(node);
            touch(node.wrapping_add(bytes - 1));
            let node = node.cast::<Node>();
            // SAFETY: a fresh block with room for the head.
            unsafe { node.write_unaligned(Node(self.heads[place], bytes)) };
            self.heads[place] = node;
        }
    }

    fn free<A: Allocator>(&mut self, place: usize, allocator: &A) {
        let mut node = core::mem::replace(&mut self.heads[place], null_mut());
        while !node.is_null() {
            // SAFETY: a node of the list.
            let Node(next, bytes) = unsafe { node.read_unaligned() };
            // SAFETY: allocated above with that size, and freed once.
            unsafe { allocator.free(node.cast(), bytes) };
            node = next;
        }
    }

    fn clear<A: Allocator>(&mut self, allocator: &A) {
        (0..LISTS).for_each(|place| self.free(place, allocator));
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_footprint_small.rs"]
mod tests;
