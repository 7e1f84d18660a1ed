//! Counting objects in and out of a slab: the steps on its bitmap and its count.
//!
//! A flush sets bits, then counts them; a refill lowers the count, then clears as many bits. So the
//! count is never above the number of set bits, and a refill always finds as many bits as it has
//! counted.

use super::{AtomicU32, AtomicU64, Ordering};

/// Marks objects of one bitmap word as free. False when one of them is free already.
#[inline]
pub(crate) fn put_bits(word: &AtomicU64, bits: u64) -> bool {
    // Release pairs with the Acquire in `take`: the last writes of the object's user happen before
    // the accesses of its next user.
    word.fetch_or(bits, Ordering::Release) & bits == 0
}

/// Counts objects whose bits were put; returns the count before.
#[inline]
pub(crate) fn count_put(free: &AtomicU32, count: u32) -> u32 {
    // AcqRel: Release after the bits, pairs with the Acquire in `take`; Acquire, so that a thread
    // that raises the count from 0 or to the capacity sees what others did before.
    free.fetch_add(count, Ordering::AcqRel)
}

/// True when a thread that has counted `count` objects in must check the slab's list.
#[inline]
pub(crate) fn must_check_list(before: usize, count: usize, capacity: usize) -> bool {
    before == 0 || before + count == capacity
}

/// The result of that check, under the cache's lock: true when the slab enters the lists of slabs
/// with free objects, or moves to the list of empty ones. Otherwise another thread has moved it, or
/// a refill has taken all objects again.
#[inline]
pub(crate) fn must_move(is_listed: bool, free: usize, capacity: usize) -> bool {
    free != 0 && (!is_listed || free == capacity)
}

/// Takes up to `wanted` objects, lowest first; `take` gets the object's index. Returns the count
/// that is left, or `None` when there are fewer bits than the count. Under the cache's lock.
#[inline]
pub(crate) fn take(
    free: &AtomicU32,
    bits: &[AtomicU64],
    wanted: usize,
    mut take: impl FnMut(usize),
) -> Option<u32> {
    // Acquire pairs with the Release in `count_put`: at least as many bits are visible.
    let counted = free.load(Ordering::Acquire) as usize;
    let count = wanted.min(counted);
    // Relaxed: only this lock's holder lowers the count.
    let before = free.fetch_sub(count as u32, Ordering::Relaxed);
    let mut missing = count;
    for (index, word) in bits.iter().enumerate() {
        if missing == 0 {
            break;
        }
        // Relaxed: a hint; the fetch_and below orders.
        let taken = lowest_bits(word.load(Ordering::Relaxed), missing);
        if taken == 0 {
            continue;
        }
        // Acquire pairs with the Release in `put_bits`.
        word.fetch_and(!taken, Ordering::Acquire);
        missing -= taken.count_ones() as usize;
        let mut rest = taken;
        while rest != 0 {
            take(index * 64 + rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }
    (missing == 0).then(|| before - count as u32)
}

pub(super) fn lowest_bits(bits: u64, count: usize) -> u64 {
    if bits.count_ones() as usize <= count {
        return bits;
    }
    let mut rest = bits;
    for _ in 0..count {
        rest &= rest - 1;
    }
    bits & !rest
}
