//! The chunks lock in forks.

use core::sync::atomic::Ordering;

use super::advice::HugePages;
use super::in_progress::Entry;
use super::state::{CHUNKS, Chunks, chunk, granule_of};
use crate::slab;

/// Called in the parent after a fork: its chunks ask for no more huge pages.
pub(crate) fn note_child() {
    if let Some(mut chunks) = CHUNKS.try_lock()
        && chunks.huge_pages == HugePages::Auto
    {
        chunks.huge_pages = HugePages::Never;
    }
}

/// Called in the child after a fork: frees the granules that threads missing in the child were
/// working on. They may hold old contents.
pub(crate) fn free_in_progress_of_others() {
    // If this very thread held the lock before the fork, it is still taken. Then no other thread
    // was working on granules.
    let Some(mut chunks) = CHUNKS.try_lock() else { return };
    loop {
        let Some(entry) = chunks.in_progress.of_others().next() else { return };
        entry.thread = 0;
        let (index, granules) = (entry.index, entry.granules);
        chunks.give(index, granules, false);
    }
}

/// Takes the chunks lock in a child whose fork was not prepared.
pub(crate) fn recover() {
    if let Some(mut chunks) = CHUNKS.acquire_to_recover(Chunks::recover) {
        chunks.clear_unpublished();
    }
}

impl Chunks {
    /// Repairs the state in a child of a fork, where a thread that the child does not have was
    /// changing it. Granules that were being taken or released are in use for ever; the other bits
    /// are made consistent with `free`.
    pub(super) fn recover(&mut self) {
        let (mut dirty, mut free, mut boundaries) = (0, 0, 0);
        for index in 0..self.count {
            let chunk = chunk(index);
            chunk.clean &= chunk.free;
            chunk.young &= chunk.free & !chunk.clean;
            dirty += (chunk.free & !chunk.clean).count_ones() as usize;
            free += chunk.free.count_ones() as usize;
            boundaries += self.boundary_before(index);
        }
        self.skipped = self.skipped.min(self.end);
        (self.dirty, self.boundaries) = (dirty, boundaries);
        self.used = (self.end - self.skipped).saturating_sub(free);
        self.first_fit.fill(0);
        self.first_fit_dirty.fill(0);
        // As if every chunk had been published just now.
        self.publish(self.count);
        self.in_progress.of_others().for_each(|is| is.granules &= !chunk(is.index).free);
    }

    /// In such a child: clears the owner and header of granules that other threads were working on
    /// and had published in part or not at all.
    fn clear_unpublished(&mut self) {
        for Entry { index, granules, .. } in self.in_progress.of_others() {
            for bit in (0..32).filter(|bit| *granules & (1 << bit) != 0) {
                let granule = granule_of(*index, bit);
                if granule.owner() != 0 {
                    // Relaxed: the child has one thread.
                    slab::header(granule).cache.store(0, Ordering::Relaxed);
                    granule.set_owner(1, 0);
                }
            }
        }
    }
}
