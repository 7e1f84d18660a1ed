//! What there is, for people and programs that watch.

use crate::dynamic::allocator::Allocator;
use crate::dynamic::backing::Backing;
use crate::dynamic::config::{GRAIN_BYTES, PAGE_BYTES, bytes_of};

/// What the allocator counts as it goes.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) allocations: u64,
    pub(super) frees: u64,
    pub(super) objects_max: u64,
    pub(super) chunks: u64,
    pub(super) chunks_max: u64,
    /// Bits; 0 before the first object.
    pub(super) object_bits_min: u32,
    pub(super) object_bits_max: u32,
    pub(super) populated_pages: u64,
}

impl Totals {
    #[inline]
    pub(super) fn allocated(&mut self, bits: u32) {
        self.allocations += 1;
        self.objects_max = self.objects_max.max(self.allocations - self.frees);
        self.object_bits_max = self.object_bits_max.max(bits);
        // Wrapping: 0 stands for "none yet" and counts as the largest.
        self.object_bits_min =
            (self.object_bits_min.wrapping_sub(1)).min(bits.wrapping_sub(1)).wrapping_add(1);
    }

    #[inline]
    pub(super) fn freed(&mut self) {
        self.frees += 1;
    }

    pub(super) fn chunk_created(&mut self) {
        self.chunks += 1;
        self.chunks_max = self.chunks_max.max(self.chunks);
    }
}

/// The state of an allocator. Bytes and pages are those of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Bytes of a chunk in one slot.
    pub unit_bytes: usize,
    /// Bytes at the head of chunk 0 that are not the allocator's.
    pub head_bytes: usize,
    /// The largest object that can be allocated.
    pub object_bytes_limit: usize,
    /// Bytes of metadata for one chunk.
    pub metadata_bytes_per_chunk: usize,
    /// Objects ever allocated.
    pub allocations: u64,
    /// Objects ever freed.
    pub frees: u64,
    /// Objects now.
    pub objects: u64,
    /// The most objects there ever were.
    pub objects_max: u64,
    /// Chunks now.
    pub chunks: u64,
    /// The most chunks there ever were.
    pub chunks_max: u64,
    /// The smallest object ever allocated, rounded up to 4; 0 before the first.
    pub object_bytes_min: usize,
    /// The largest object ever allocated, rounded up to 4; 0 before the first.
    pub object_bytes_max: usize,
    /// Populated pages, the hidden head's included.
    pub populated_pages: u64,
    /// Populated pages without an object, those of isolated chunks not included.
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

    /// Free bytes, in one slot, that no object could use that is as large as the smallest so far:
    /// those in runs shorter than it. Reads all maps.
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
