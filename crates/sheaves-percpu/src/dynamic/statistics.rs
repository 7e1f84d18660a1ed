//! Statistics of the allocator, for monitoring.

use crate::dynamic::allocator::Allocator;
use crate::dynamic::backing::Backing;
use crate::dynamic::config::{GRAIN_BYTES, PAGE_BYTES, bytes_of};

/// The state of an allocator. Bytes and pages are those of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Bytes of a chunk in one slot.
    pub unit_bytes: usize,
    /// Bytes at the head of chunk 0 that do not belong to the allocator.
    pub head_bytes: usize,
    /// The largest object that can be allocated.
    pub object_bytes_limit: usize,
    /// Bytes of metadata for one chunk.
    pub metadata_bytes_per_chunk: usize,
    /// Number of allocations so far.
    pub allocations: u64,
    /// Number of frees so far.
    pub frees: u64,
    /// Number of objects at this moment.
    pub objects: u64,
    /// Largest number of objects so far.
    pub objects_max: u64,
    /// Number of chunks at this moment.
    pub chunks: u64,
    /// Largest number of chunks so far.
    pub chunks_max: u64,
    /// Size of the smallest object so far, rounded up to a multiple of 4; 0 before the first.
    pub object_bytes_min: usize,
    /// Size of the largest object so far, rounded up to a multiple of 4; 0 before the first.
    pub object_bytes_max: usize,
    /// Populated pages, including those of the hidden head.
    pub populated_pages: u64,
    /// Populated pages without an object, except those of isolated chunks.
    pub empty_pages: u64,
}

impl<B: Backing> Allocator<B> {
    /// The state of the allocator. Constant time.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let totals = &self.totals;
        let config = self.geometry.config;
        Statistics {
            unit_bytes: config.unit_bytes,
            head_bytes: config.head_bytes,
            object_bytes_limit: crate::dynamic::OBJECT_BYTES_MAX,
            metadata_bytes_per_chunk: self.records.record_bytes(),
            allocations: totals.allocations,
            frees: totals.frees,
            objects: totals.allocations - totals.frees,
            objects_max: totals.objects_max,
            chunks: totals.chunks,
            chunks_max: totals.chunks_max,
            object_bytes_min: bytes_of(totals.object_bits_min),
            object_bytes_max: bytes_of(totals.object_bits_max),
            populated_pages: totals.populated_pages,
            empty_pages: u64::from(self.empty),
        }
    }

    /// Free bytes, in one slot, that are useless even for the smallest object size so far, because
    /// their runs are shorter. Reads all bitmaps.
    #[cfg(any(test, feature = "counters"))]
    pub fn unusable_bytes(&mut self) -> usize {
        let smallest = self.totals.object_bits_min;
        let mut bytes = 0;
        let mut from = 0;
        while let Some(chunk) = self.records.next_live(from) {
            let view = self.records.chunk(chunk);
            let short = view.free_runs().filter(|run| run.bits() < smallest);
            bytes += short.map(|run| bytes_of(run.bits())).sum::<usize>();
            from = chunk + 1;
        }
        bytes
    }
}

#[cfg(any(test, feature = "counters"))]
impl crate::dynamic::chunk::Chunk<'_> {
    /// The free runs, in order.
    pub(super) fn free_runs(&self) -> impl Iterator<Item = crate::dynamic::hints::Run> {
        use crate::dynamic::{bits, hints::Run};
        let end = self.header.hints.bits;
        let mut at = 0;
        core::iter::from_fn(move || {
            let start = bits::next_zero(self.allocated, at, end);
            at = bits::next_one(self.allocated, start, end);
            (start < end).then_some(Run { start, end: at })
        })
    }
}

const _: () = assert!(PAGE_BYTES.is_multiple_of(GRAIN_BYTES));
