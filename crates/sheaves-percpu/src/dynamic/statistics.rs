//! What there is, for people and programs that watch: of the allocator and of each chunk.

use crate::dynamic::allocator::Allocator;
use crate::dynamic::backing::Backing;
use crate::dynamic::bits;
use crate::dynamic::chunk::Chunk;
use crate::dynamic::config::{GRAIN_BYTES, PAGE_BYTES, bytes_of};
use crate::dynamic::hints::Run;
use crate::dynamic::policy::Policy;

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

/// In which list a chunk is, where that says more than how much room it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkLabel {
    /// Chunk 0, part of which is hidden.
    First,
    /// Its empty pages are to be given back.
    ToDepopulate,
    /// Its empty pages were given back; used before a chunk without objects is.
    Sidelined,
    /// None of these.
    Ordinary,
}

/// The state of one chunk. Bytes and pages are those of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkStatistics {
    /// Its number.
    pub chunk: usize,
    /// Where it stands.
    pub label: ChunkLabel,
    /// Objects in it.
    pub objects: u64,
    /// The largest object that was ever in it, rounded up to 4.
    pub object_bytes_max: usize,
    /// Populated pages.
    pub populated_pages: u64,
    /// Populated pages without an object.
    pub empty_pages: u64,
    /// Bytes before the first free one.
    pub first_free: usize,
    /// Free bytes.
    pub free_bytes: usize,
    /// The longest free run that is known.
    pub contig_bytes: usize,
    /// Free bytes before the end of the last object.
    pub fragment_bytes: usize,
    /// The longest free run before the end of the last object.
    pub fragment_bytes_max: usize,
    /// The smallest object in it; 0 when there is none.
    pub current_bytes_min: usize,
    /// The median of its objects' sizes, the smaller of two; 0 when there is none.
    pub current_bytes_median: usize,
    /// The largest object in it; 0 when there is none.
    pub current_bytes_max: usize,
}

impl<P: Policy, B: Backing> Allocator<P, B> {
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

    /// Numbers of the chunks that exist, in order.
    pub fn chunks(&self) -> impl Iterator<Item = usize> {
        let mut from = 0;
        core::iter::from_fn(move || {
            let chunk = self.records.next_live(from)?;
            from = chunk + 1;
            Some(chunk as usize)
        })
    }

    /// The state of one chunk; `None` when it does not exist. Reads its maps some fifteen times.
    pub fn chunk_statistics(&mut self, chunk: usize) -> Option<ChunkStatistics> {
        let number = u32::try_from(chunk).ok().filter(|number| self.records.is_live(*number))?;
        let (sidelined, to_depopulate) = (self.lists.sidelined(), self.lists.to_depopulate());
        let first = chunk == 0 && self.geometry.head_bits > 0;
        let view = self.records.chunk(number);
        let header = &*view.header;
        let fragments = Fragments::of(&view);
        Some(ChunkStatistics {
            chunk,
            label: match header.list {
                _ if first => ChunkLabel::First,
                list if list == sidelined => ChunkLabel::Sidelined,
                list if list == to_depopulate => ChunkLabel::ToDepopulate,
                _ => ChunkLabel::Ordinary,
            },
            objects: u64::from(header.objects),
            object_bytes_max: bytes_of(header.object_bits_max),
            populated_pages: u64::from(header.populated.count_ones()),
            empty_pages: u64::from(header.empty),
            first_free: bytes_of(header.hints.first_free),
            free_bytes: bytes_of(header.free_bits),
            contig_bytes: bytes_of(header.hints.contig),
            fragment_bytes: bytes_of(fragments.bits),
            fragment_bytes_max: bytes_of(fragments.bits_max),
            current_bytes_min: bytes_of(view.smallest_object()),
            current_bytes_median: bytes_of(view.median_object()),
            current_bytes_max: bytes_of(view.largest_object()),
        })
    }

    /// Free bytes, in one slot, that no object could use that is as large as the smallest so far:
    /// those in runs shorter than it. Reads all maps.
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

    /// Bytes of one slot that objects take now, those that rounding to 4 adds included.
    #[must_use]
    pub fn allocated_bytes(&self) -> usize {
        let chunks = self.chunks().map(|chunk| {
            self.geometry.config.unit_bytes
                - bytes_of(self.records.header(chunk as u32).free_bits)
                - if chunk == 0 { self.geometry.config.head_bytes } else { 0 }
        });
        chunks.sum()
    }
}

/// Free memory before the end of the last object.
struct Fragments {
    bits: u32,
    bits_max: u32,
}

impl Fragments {
    fn of(chunk: &Chunk<'_>) -> Fragments {
        let mut fragments = Fragments { bits: 0, bits_max: 0 };
        for run in chunk.free_runs().filter(|run| run.end < chunk.header.hints.bits) {
            fragments.bits += run.bits();
            fragments.bits_max = fragments.bits_max.max(run.bits());
        }
        fragments
    }
}

impl Chunk<'_> {
    /// The free runs, in order.
    pub(super) fn free_runs(&self) -> impl Iterator<Item = Run> {
        let end = self.header.hints.bits;
        let mut at = 0;
        core::iter::from_fn(move || {
            let start = bits::next_zero(self.allocated, at, end);
            at = bits::next_one(self.allocated, start, end);
            (start < end).then_some(Run { start, end: at })
        })
    }

    /// The objects, in order.
    pub(super) fn object_runs(&self) -> impl Iterator<Item = Run> {
        let end = self.header.hints.bits;
        let mut at = 0;
        core::iter::from_fn(move || {
            loop {
                let start = bits::next_one(self.allocated, at, end);
                if start == end {
                    return None;
                }
                at = bits::next_one(self.bounds, start + 1, end);
                // Where the hidden head begins there is no boundary.
                if bits::is_one(self.bounds, start) {
                    return Some(Run { start, end: at });
                }
            }
        })
    }

    /// Bits of the objects.
    fn objects(&self) -> impl Iterator<Item = u32> {
        self.object_runs().map(Run::bits)
    }

    fn smallest_object(&self) -> u32 {
        self.objects().min().unwrap_or(0)
    }

    fn largest_object(&self) -> u32 {
        self.objects().max().unwrap_or(0)
    }

    /// By bisection of the value, since there is no memory to sort in.
    fn median_object(&self) -> u32 {
        let half = self.objects().count().div_ceil(2);
        let (mut low, mut high) = (self.smallest_object(), self.largest_object());
        while low < high {
            let middle = low.midpoint(high);
            if self.objects().filter(|bits| *bits <= middle).count() >= half {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

const _: () = assert!(PAGE_BYTES.is_multiple_of(GRAIN_BYTES));
