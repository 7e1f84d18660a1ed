//! Which chunks ask the kernel for huge pages, and for how long.
//!
//! The limit on the number of mappings of a process is for all that it maps. So a chunk asks for a
//! huge page only while few chunks differ in their advice from the one before them, or if it adds
//! no such boundary.

use sheaves_rcu::internal::keeper;
use sheaves_sys::map;

use super::advice::{Advice, HugePages};
use super::state::{Chunk, Chunks, granule_of};
use crate::space::window::{CHUNK_BYTES, CHUNK_GRANULES};
use crate::space::work;

/// Time in which a chunk is dense before it asks for a huge page.
pub(super) const DENSE_MS: u32 = 10_000;
/// `dense_ms` of a chunk in which holes of slabs were discarded.
pub(super) const HOLED: u32 = u32::MAX;

/// Boundaries that may always be there; more if the heap has [`CHUNKS_PER_BOUNDARY`] for each.
const BOUNDARIES_MIN: usize = 32;
const CHUNKS_PER_BOUNDARY: usize = 8;
/// The heap has at most this share of the mappings that a process may have.
const SHARE: usize = 8;
/// Chunks on one side that are looked at to avoid a boundary.
const NEAR: usize = 512;

impl Chunks {
    /// Gives advice on some chunks, if then there are at most `boundaries`, or no more than before.
    pub(super) fn advise(
        &mut self,
        first: usize,
        end: usize,
        advice: Advice,
        boundaries: usize,
    ) -> bool {
        let before: usize = (first..=end).map(|index| self.boundary_before(index)).sum();
        let below = first > 0 && self.advice(first - 1).differs(advice);
        let after = usize::from(below) + usize::from(advice.differs(self.advice(end)));
        let is_allowed = after <= before || self.boundaries + after <= boundaries + before;
        let address = granule_of(first, 0).address();
        if !is_allowed || !advice.give(address, (end - first) * CHUNK_BYTES) {
            return false;
        }
        self.change(first, end, advice);
        true
    }

    /// At a tick, for a chunk that has not asked for a huge page: asks if it has been dense for so
    /// long.
    pub(super) fn ask_if_dense(&mut self, index: usize) {
        let period_ms = keeper::period_ms().unwrap_or(0) as u32;
        let is_complete = (index + 1) * CHUNK_GRANULES <= self.end;
        let chunk = self.chunk_mut(index);
        chunk.dense_ms = match chunk.free {
            0 if chunk.dense_ms == HOLED => HOLED,
            0 if is_complete => (chunk.dense_ms + period_ms).min(DENSE_MS),
            _ => 0,
        };
        let Chunk { dense_ms, advice, .. } = *chunk;
        let may_ask = advice == Advice::Avoid && self.huge_pages != HugePages::Never;
        if dense_ms == DENSE_MS && may_ask {
            let few = (self.count / CHUNKS_PER_BOUNDARY).max(BOUNDARIES_MIN);
            self.advise(index, index + 1, Advice::Prefer, few.min(map::MAPPINGS_MAX / SHARE));
        }
    }

    /// Memory of a chunk goes back to the kernel, which is not to fill it by a huge page: a chunk
    /// that has asked for one asks for none. `dense_ms` is that of the chunk from now on.
    pub(super) fn ask_no_more(&mut self, index: usize, dense_ms: u32) {
        self.chunk_mut(index).dense_ms = dense_ms;
        if self.advice(index) == Advice::Prefer {
            self.avoid(index, map::MAPPINGS_MAX / SHARE);
            work::note(work::OF_ADVICE);
        }
    }

    /// Where that would add a boundary too many, the chunks up to the next one on a side ask for no
    /// huge page, too.
    pub(super) fn avoid(&mut self, index: usize, boundaries: usize) {
        let advise =
            |chunks: &mut Self, first, end| chunks.advise(first, end, Advice::Avoid, boundaries);
        if advise(self, index, index + 1) {
            return;
        }
        let after = index + self.asked(index..index + NEAR);
        if !advise(self, index, after) {
            let below = index + 1 - self.asked((0..=index).rev().take(NEAR));
            let _is_done = advise(self, below, index + 1);
        }
    }

    /// How many chunks have asked for a huge page, from the first on.
    fn asked(&self, chunks: impl Iterator<Item = usize>) -> usize {
        let is_complete = |index: &usize| (index + 1) * CHUNK_GRANULES <= self.end;
        chunks
            .take_while(is_complete)
            .take_while(|index| self.advice(*index) == Advice::Prefer)
            .count()
    }
}
