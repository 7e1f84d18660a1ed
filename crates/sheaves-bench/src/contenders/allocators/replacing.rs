//! The workload of `replace` and `mixed`: each thread keeps blocks, and again and again replaces a
//! random one by another of random size.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::{Allocator, touch};
use crate::harness::{Backoff, Consumer, Producer, Random, Ring, Workers, scale};

/// Replacements between two looks at what other threads have handed over.
const LOOK_EVERY: usize = 64;
/// Shares of replacements are counted in this part.
pub(crate) const SHARES: u32 = 128;

/// What is replaced. The last byte of a block is written if `LAST`, the first in any case.
#[derive(Clone, Copy)]
pub(crate) struct Replacing<F, const LAST: bool> {
    pub(crate) threads: usize,
    pub(crate) live: usize,
    pub(crate) size_of: F,
    /// Blocks that the next thread frees, of [`SHARES`].
    pub(crate) handed_over: u32,
}

/// The size that 32 random bits stand for.
pub(crate) trait SizeOf: Fn(u32) -> usize + Copy + Send + Sync + 'static {}

impl<F: Fn(u32) -> usize + Copy + Send + Sync + 'static> SizeOf for F {}

/// Sizes, of which each is as likely as any other.
pub(crate) fn log_uniform(min: f64, max: f64) -> Vec<u16> {
    let size = |step: u32| min * (max / min).powf(f64::from(step) / 4095.0);
    (0..4096).map(|step| size(step).round() as u16).collect()
}

#[inline]
pub(crate) fn one_of(sizes: &[u16], bits: u32) -> usize {
    usize::from(sizes[scale(bits, sizes.len() as u32) as usize])
}

impl<F: SizeOf, const LAST: bool> Replacing<F, LAST> {
    /// Nanoseconds that a replacement takes a thread, in the mean of `timed` each. `seed` differs
    /// from sample to sample.
    pub(crate) fn time<A: Allocator>(
        self,
        allocator: &Arc<A>,
        (untimed, timed): (usize, usize),
        seed: u64,
    ) -> Result<f64, crate::harness::failure::Failure> {
        let rings = (0..self.threads).map(|_| Ring::new()).collect();
        let (allocator, arrived) = (Arc::clone(allocator), AtomicUsize::new(0));
        let shared = Arc::new(Shared { replacing: self, allocator, rings, arrived });
        Ok(Workers::of(self.threads)?.time(untimed, timed, move |worker| {
            let mut set = Set::new(Arc::clone(&shared), worker, seed);
            move |count| set.replace(count)
        }))
    }
}

struct Shared<A, F, const LAST: bool> {
    replacing: Replacing<F, LAST>,
    allocator: Arc<A>,
    /// Blocks that a thread hands over to the next one.
    rings: Vec<Ring>,
    /// How often a thread has done all of its replacements.
    arrived: AtomicUsize,
}

struct Set<A: Allocator, F: SizeOf, const LAST: bool> {
    shared: Arc<Shared<A, F, LAST>>,
    worker: usize,
    blocks: Vec<(*mut u8, usize)>,
    random: Random,
}

impl<A: Allocator, F: SizeOf, const LAST: bool> Set<A, F, LAST> {
    fn new(shared: Arc<Shared<A, F, LAST>>, worker: usize, seed: u64) -> Set<A, F, LAST> {
        shared.allocator.enter_thread();
        let mut random = Random::new(seed + worker as u64);
        let block = |_| shared.allocate((random.next() >> 32) as u32);
        let blocks = (0..shared.replacing.live).map(block).collect();
        Set { shared, worker, blocks, random }
    }

    fn replace(&mut self, count: usize) {
        match self.shared.replacing.handed_over {
            0 => self.replace_own(count),
            _ => self.replace_and_hand_over(count),
        }
    }

    #[inline(never)]
    fn replace_own(&mut self, count: usize) {
        let Set { shared, blocks, random, .. } = self;
        let live = blocks.len() as u32;
        for _ in 0..count {
            let bits = random.next();
            let block = &mut blocks[scale(bits as u32, live) as usize];
            // SAFETY: the block is live and of that size, and is replaced at once.
            unsafe { shared.allocator.free(block.0, block.1) };
            *block = shared.allocate((bits >> 32) as u32);
        }
    }

    /// Returns when all threads have done theirs and the rings are empty.
    #[inline(never)]
    fn replace_and_hand_over(&mut self, count: usize) {
        let Set { shared, worker, blocks, random } = self;
        let Replacing { threads, handed_over, .. } = shared.replacing;
        let mut to_next = shared.rings[*worker].producer();
        let mut from_last = shared.rings[(*worker + threads - 1) % threads].consumer();
        let live = blocks.len() as u32;
        for index in 0..count {
            let bits = random.next();
            let block = &mut blocks[scale(bits as u32, live) as usize];
            if (bits as u32) % SHARES < handed_over {
                shared.hand_over(block.0, &mut to_next, &mut from_last);
            } else {
                // SAFETY: the block is live and of that size, and is replaced below.
                unsafe { shared.allocator.free(block.0, block.1) };
            }
            *block = shared.allocate((bits >> 32) as u32);
            if index.is_multiple_of(LOOK_EVERY) {
                shared.free_all(&mut from_last);
            }
        }
        to_next.publish();
        // Acquire-release: partners are this increment in the other threads and the load below;
        // what they have sent is visible to one that sees them all.
        let before = shared.arrived.fetch_add(1, Ordering::AcqRel);
        let all = (before / threads + 1) * threads;
        let mut backoff = Backoff::new();
        // Acquire: partner is the increment of the last to arrive.
        while shared.arrived.load(Ordering::Acquire) < all {
            shared.free_all(&mut from_last);
            backoff.pause();
        }
        shared.free_all(&mut from_last);
    }
}

impl<A: Allocator, F: SizeOf, const LAST: bool> Drop for Set<A, F, LAST> {
    fn drop(&mut self) {
        for (block, size) in &self.blocks {
            // SAFETY: live and of that size, and given up here.
            unsafe { self.shared.allocator.free(*block, *size) };
        }
    }
}

impl<A: Allocator, F: SizeOf, const LAST: bool> Shared<A, F, LAST> {
    /// A block of random size, written to.
    #[inline]
    fn allocate(&self, bits: u32) -> (*mut u8, usize) {
        let size = (self.replacing.size_of)(bits);
        let block = self.allocator.alloc(size);
        touch(block);
        if LAST {
            touch(block.wrapping_add(size - 1));
        }
        (block, size)
    }

    /// Sends a block to the next thread. While the queue is full, frees what has come.
    fn hand_over(&self, block: *mut u8, to_next: &mut Producer<'_>, from_last: &mut Consumer<'_>) {
        let mut backoff = Backoff::new();
        while !to_next.try_push(block) {
            self.free_all(from_last);
            backoff.pause();
        }
    }

    /// Frees what has come from the thread before.
    #[inline]
    fn free_all(&self, from_last: &mut Consumer<'_>) {
        while let Some(block) = from_last.try_pop() {
            // SAFETY: the other thread gave the block away; the contenders find the size.
            unsafe { self.allocator.free(block, 0) };
        }
    }
}
