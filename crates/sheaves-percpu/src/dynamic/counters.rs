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
