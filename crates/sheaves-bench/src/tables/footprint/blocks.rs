//! Blocks of one contender, allocated and freed in bulk or one by one.

use alloc::sync::Arc;
use core::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::contenders::allocators::{Allocator, touch};
use crate::harness::Random;

pub(super) const MIB: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;

pub(super) struct Blocks<A: Allocator> {
    allocator: Arc<A>,
    /// With room for all blocks from the start, in memory that was written to, so that it is no
    /// part of what memory grows by. It is large enough to be a mapping of its own.
    live: Vec<(*mut u8, usize)>,
    /// The sum of the sizes.
    bytes: usize,
    random: Random,
}

// SAFETY: the blocks are owned, and any thread may free what another has allocated.
unsafe impl<A: Allocator> Send for Blocks<A> {}

impl<A: Allocator> Blocks<A> {
    pub(super) fn new(allocator: Arc<A>, capacity: usize, seed: u64) -> Blocks<A> {
        let mut live = vec![(core::ptr::dangling_mut(), 1); capacity];
        live.clear();
        Blocks { allocator, live, bytes: 0, random: Random::new(seed) }
    }

    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    /// Allocates blocks of these sizes, as many bytes as that in all.
    pub(super) fn add(&mut self, bytes: usize, size_of: impl Fn(u32) -> usize) {
        let end = self.bytes + bytes;
        while self.bytes < end {
            let size = size_of((self.random.next() >> 32) as u32);
            self.allocate(size);
        }
    }

    pub(super) fn free(&mut self, range: Range<usize>) {
        for (block, size) in self.live.drain(range) {
            self.bytes -= size;
            // SAFETY: allocated here and freed once.
            unsafe { self.allocator.free(block, size) };
        }
    }

    /// Frees all in random order, except for a number of them.
    pub(super) fn free_all_but(&mut self, kept: usize) {
        self.random.shuffle(&mut self.live);
        self.free(kept..self.live.len());
    }

    /// Allocates a block of one of these sizes; before that frees random ones until not more than
    /// `bytes` are in use with it.
    #[inline]
    pub(super) fn replace(&mut self, bytes: usize, size_of: impl Fn(u32) -> usize) {
        let bits = self.random.next();
        let size = size_of((bits >> 32) as u32);
        while self.bytes + size > bytes || self.live.len() == self.live.capacity() {
            let place = self.random.below(self.live.len() as u32) as usize;
            let (block, size) = self.live.swap_remove(place);
            self.bytes -= size;
            // SAFETY: as in `free`.
            unsafe { self.allocator.free(block, size) };
        }
        self.allocate(size);
    }

    /// Each page of the block is written to.
    #[inline]
    fn allocate(&mut self, size: usize) {
        let block = self.allocator.alloc(size);
        for offset in (0..size).step_by(PAGE_BYTES) {
            touch(block.wrapping_add(offset));
        }
        touch(block.wrapping_add(size - 1));
        self.bytes += size;
        self.live.push((block, size));
    }
}

impl<A: Allocator> Drop for Blocks<A> {
    fn drop(&mut self) {
        self.free(0..self.live.len());
    }
}

/// What no other thread uses at the same time.
pub(super) fn own<T>(blocks: &Mutex<T>) -> MutexGuard<'_, T> {
    blocks.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
impl<A: Allocator> Blocks<A> {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn room(&self) -> usize {
        self.live.capacity()
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_footprint_blocks.rs"]
mod tests;
