//! Statistics of the allocator, for monitoring.

/// The state of an allocator. Pages are those of one slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Bytes of metadata for one chunk.
    pub metadata_bytes_per_chunk: usize,
    /// Number of allocations so far.
    pub allocations: u64,
    /// Number of frees so far.
    pub frees: u64,
    /// Number of chunks at this moment.
    pub chunks: u64,
    /// Populated pages, including those of the hidden head.
    pub populated_pages: u64,
    /// Populated pages without an object.
    pub empty_pages: u64,
}

impl Statistics {
    /// Number of objects at this moment.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.allocations - self.frees
    }
}
