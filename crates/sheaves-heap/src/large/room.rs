//! Room for a block: a mapping that is large enough, without what is too much of it, and what is
//! tried where the kernel has refused one.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_rcu::internal;
use sheaves_slab::internal::chunk;
use sheaves_sys::{clock, map};

use super::table::{Entry, TABLE};

/// The least time between two attempts to find what is missing for a block in a smaller heap.
const PAUSE_MS: u64 = 10;

/// Returns everything unused, where that may be enough for a block that could not be mapped: a
/// limit on address space counts what the heap has mapped. The heap may be smaller than the block,
/// and yet have what is missing: since a program may ask for too much again and again, that is
/// tried now and then. True if it was done.
#[cold]
pub(super) fn return_unused(bytes: usize) -> bool {
    static TRIED_MS: AtomicU64 = AtomicU64::new(0);
    let now_ms = clock::coarse_ms();
    // Relaxed, both: a hint.
    let is_soon = now_ms.saturating_sub(TRIED_MS.load(Ordering::Relaxed)) < PAUSE_MS;
    if is_soon && chunk::footprint().mapped_bytes < bytes {
        return false;
    }
    internal::trim();
    TRIED_MS.store(now_ms, Ordering::Relaxed);
    true
}

/// Zeroed memory at a multiple of `align`.
pub(super) fn map_aligned(bytes: usize, align: usize) -> Option<usize> {
    let (address, mapping) = map::aligned(bytes, align)?;
    let mapping = Entry { address: mapping.start, bytes: mapping.len() };
    give_back_beside(Entry { address, bytes }, mapping);
    Some(address)
}

/// Gives back what a mapping has before and behind a block.
pub(super) fn give_back_beside(block: Entry, mapping: Entry) {
    let [block_end, end] = [block, mapping].map(|range| range.address + range.bytes);
    for (from, to) in [(mapping.address, block.address), (block_end, end)] {
        if from != to {
            give_back(Entry { address: from, bytes: to - from });
        }
    }
}

/// Unmaps a range that is the caller's and in no table, or keeps it. Not under the table's lock.
pub(super) fn give_back(range: Entry) {
    // SAFETY: the caller's, which does not use it any more.
    if !unsafe { map::unmap(range.address, range.bytes) } {
        TABLE.lock().keep(range);
    }
}
