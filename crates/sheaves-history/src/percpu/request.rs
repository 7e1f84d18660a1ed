//! Requests and their units, and how much work they cause.

use super::hints::Run;

/// Bytes of a page and of a block, and of one bit of the maps.
pub const PAGE_BYTES: usize = 4096;
pub(super) const GRAIN_BYTES: usize = 4;

/// Amount of work: the same on every machine and in every run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Chunks that were tested for room.
    pub chunks_tested: u64,
    /// Words of the maps that were read.
    pub words_read: u64,
    /// Blocks whose hints were recomputed from the map.
    pub block_refreshes: u64,
    /// Blocks that were visited to recompute the hints of chunks.
    pub blocks_refreshed: u64,
    /// Chunks that were removed from the search because they did not fit.
    pub relegations: u64,
}

/// A request, in bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) bits: u32,
    pub(super) align_mask: u32,
}

impl Request {
    pub(super) fn align_up(self, bit: u32) -> u32 {
        (bit + self.align_mask) & !self.align_mask
    }

    pub(super) fn fits(self, run: Run) -> bool {
        self.align_up(run.start) + self.bits <= run.end
    }
}

/// Number of words that a search from one position to another one reads.
pub(super) fn words_between(from: u32, to: u32) -> u64 {
    u64::from((to / u64::BITS).saturating_sub(from / u64::BITS) + 1)
}
