//! Numbers that tell algorithms apart on any machine.

/// How much work an allocator did since it was made: the same on every machine and in every run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Chunks that were tested for room, those that had it included.
    pub chunks_tested: u64,
    /// Words of allocation and boundary maps that searches, refreshes and frees read.
    pub words_read: u64,
    /// Blocks whose hints were found anew from the map.
    pub block_refreshes: u64,
    /// Chunks whose hints were found anew from their blocks.
    pub chunk_refreshes: u64,
    /// Blocks that were visited to find the hints of chunks anew.
    pub blocks_refreshed: u64,
    /// Blocks that searches visited.
    pub blocks_searched: u64,
    /// Chunks that were taken out of the search because they did not fit.
    pub relegations: u64,
    /// Chunks that were made.
    pub chunks_created: u64,
    /// Chunks that were destroyed.
    pub chunks_destroyed: u64,
    /// Pages that were given back while their chunk lived on.
    pub pages_depopulated: u64,
}

impl Counters {
    /// The work that was done after `before`, which is an earlier copy.
    #[must_use]
    pub fn since(self, before: Counters) -> Counters {
        Counters {
            chunks_tested: self.chunks_tested - before.chunks_tested,
            words_read: self.words_read - before.words_read,
            block_refreshes: self.block_refreshes - before.block_refreshes,
            chunk_refreshes: self.chunk_refreshes - before.chunk_refreshes,
            blocks_refreshed: self.blocks_refreshed - before.blocks_refreshed,
            blocks_searched: self.blocks_searched - before.blocks_searched,
            relegations: self.relegations - before.relegations,
            chunks_created: self.chunks_created - before.chunks_created,
            chunks_destroyed: self.chunks_destroyed - before.chunks_destroyed,
            pages_depopulated: self.pages_depopulated - before.pages_depopulated,
        }
    }
}
