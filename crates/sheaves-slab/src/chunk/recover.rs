//! Chunks in a child of a fork whose handlers have not run: repairs the changes that other threads
//! had begun.

use core::sync::atomic::Ordering;

use super::{CHUNK_GRANULES, CHUNKS, Chunks, chunk, granule_of};
use crate::slab;

/// Takes the chunks lock in a child whose fork was not prepared.
pub(crate) fn recover() {
    if let Some(mut chunks) = CHUNKS.acquire_to_recover(Chunks::recover) {
        chunks.withdraw();
    }
}

impl Chunks {
    /// Repairs the state in a child of a fork, where a thread that the child does not have was
    /// changing it. Granules that were being taken or released are in use for ever; the other bits
    /// are made consistent with `free`.
    fn recover(&mut self) {
        let (mut dirty, mut free) = (0, 0);
        for index in 0..self.count {
            let chunk = chunk(index);
            chunk.clean &= chunk.free;
            chunk.young &= chunk.free & !chunk.clean;
            dirty += (chunk.free & !chunk.clean).count_ones() as usize;
            free += chunk.free.count_ones() as usize;
        }
        self.skipped = self.skipped.min(self.count);
        self.dirty = dirty;
        self.used = ((self.count - self.skipped) * CHUNK_GRANULES).saturating_sub(free);
        self.first_fit.fill(0);
        // As if every chunk had been published just now.
        self.publish(self.count);
        self.away.of_others(|index, granules| *granules &= !chunk(index).free);
    }

    /// In such a child: clears owner and header of the granules of other threads, which were not
    /// published, or only in part.
    fn withdraw(&mut self) {
        self.away.of_others(|index, granules| {
            for bit in (0..32).filter(|bit| *granules & (1 << bit) != 0) {
                let granule = granule_of(index, bit);
                if granule.owner() != 0 {
                    // Relaxed: the child has one thread.
                    slab::header(granule).cache.store(0, Ordering::Relaxed);
                    granule.clear_owner(1);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::{give_run, mask, place_of, take_run};
    use crate::raw::{Cache, Options};
    use core::alloc::Layout;

    /// A thread that is copied in the middle of a change has changed any bits of one map and not of
    /// another.
    #[test]
    fn half_made_changes_are_put_in_order() {
        let _started = Cache::new("chunks", Layout::new::<u64>(), Options::default()).unwrap();
        let runs = [1, 3, 8].map(|count| (take_run(count, 1).unwrap().first, count));
        let mut chunks = CHUNKS.lock();
        let before = (chunks.used, chunks.dirty);
        for (first, count) in runs {
            let (index, bit) = place_of(first);
            let state = chunk(index);
            // On their way back, or out again, and nothing else says so.
            state.clean |= mask(bit, count);
            state.young |= mask(bit, count);
        }
        (chunks.used, chunks.dirty) = (7, 7);
        chunks.first_fit.fill(u32::MAX);
        chunks.recover();
        assert_eq!((chunks.used, chunks.dirty), before);
        for index in 0..chunks.count {
            let state = chunk(index);
            assert_eq!(state.clean & !state.free, 0);
            assert_eq!(state.young & (!state.free | state.clean), 0);
        }
        drop(chunks);
        for (first, count) in runs {
            give_run(first, count);
        }
    }
}
