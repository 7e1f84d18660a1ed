//! The metadata of chunks: one flat record per chunk number, in memory from the backing.
//!
//! ```text
//!   live chunks | record 0 | record 1 | ...
//!   bitmap        header, pages, allocation map, boundary map
//! ```
//!
//! A record is an odd number of cache lines. With a power of two as stride, the headers of
//! neighbouring chunks would compete for a few sets of the CPU's caches.
//!
//! # Invariants
//! A record is committed and initialised if and only if its chunk's bit in the bitmap is one.

use core::ops::Range;
use core::ptr::NonNull;
use core::slice;

use crate::dynamic::backing::Backing;
use crate::dynamic::bits;
use crate::dynamic::chunk::{Chunk, Header};
use crate::dynamic::config::Geometry;
use crate::dynamic::counters::Work;
use crate::dynamic::hints::{Hints, PAGE_WORDS};

const LINE_BYTES: usize = 64;

#[derive(Debug)]
pub(super) struct Records {
    base: NonNull<u8>,
    /// Number of chunk numbers, and of valid bits in the bitmap.
    chunks_max: u32,
    pages: usize,
    map_words: usize,
    /// Bytes from `base` to record 0.
    bitmap_bytes: usize,
    pub(super) record_bytes: usize,
    pub(super) work: Work,
}

// SAFETY: the metadata belongs to the records alone, as `Backing` requires.
unsafe impl Send for Records {}

impl Records {
    pub(super) fn new(geometry: &Geometry, backing: &mut impl Backing) -> Option<Self> {
        let chunks_max = geometry.config.chunks_max;
        let pages = geometry.pages as usize;
        let map_words = pages * PAGE_WORDS;
        let bytes = size_of::<Header>() + pages * size_of::<Hints>() + (2 * map_words + 1) * 8;
        let record_bytes = (bytes.div_ceil(LINE_BYTES) | 1) * LINE_BYTES;
        let bitmap_bytes = chunks_max.div_ceil(8).next_multiple_of(LINE_BYTES);
        let all = record_bytes.checked_mul(chunks_max).and_then(|b| b.checked_add(bitmap_bytes));
        let base = backing.reserve_metadata(all?)?;
        if !backing.commit_metadata(0..bitmap_bytes) {
            return None;
        }
        let chunks_max = chunks_max as u32;
        let work = Work::new();
        let mut records =
            Records { base, chunks_max, pages, map_words, bitmap_bytes, record_bytes, work };
        records.live_mut().fill(0);
        Some(records)
    }

    /// One bit per chunk number: does the chunk exist?
    #[inline(always)]
    fn live(&self) -> &[u64] {
        let words = self.base.as_ptr().cast::<u64>();
        // SAFETY: the bitmap was committed in `new` and is never released; it has no other user.
        unsafe { slice::from_raw_parts(words, self.bitmap_bytes / 8) }
    }

    fn live_mut(&mut self) -> &mut [u64] {
        let words = self.base.as_ptr().cast::<u64>();
        // SAFETY: as in `live`, and the borrow of `self` is exclusive.
        unsafe { slice::from_raw_parts_mut(words, self.bitmap_bytes / 8) }
    }

    #[inline(always)]
    pub(super) fn is_live(&self, chunk: u32) -> bool {
        bits::is_one(self.live(), chunk)
    }

    pub(super) fn next_live(&self, from: u32) -> Option<u32> {
        let chunk = bits::next_one(self.live(), from, self.chunks_max);
        (chunk < self.chunks_max).then_some(chunk)
    }

    pub(super) fn first_vacant(&self) -> Option<u32> {
        let chunk = bits::next_zero(self.live(), 0, self.chunks_max);
        (chunk < self.chunks_max).then_some(chunk)
    }

    /// Bytes of a chunk's record, relative to the base.
    #[inline(always)]
    fn record(&self, chunk: u32) -> Range<usize> {
        let start = self.bitmap_bytes + chunk as usize * self.record_bytes;
        start..start + self.record_bytes
    }

    #[inline(always)]
    fn start_of(&self, chunk: u32) -> *mut u8 {
        debug_assert!(self.is_live(chunk));
        let start = self.record(chunk).start;
        // SAFETY: `chunk` is below `chunks_max`, because chunk numbers come from this bitmap.
        unsafe { self.base.as_ptr().add(start) }
    }

    #[inline(always)]
    pub(super) fn header(&self, chunk: u32) -> &Header {
        // SAFETY: a live record is initialised and begins with its header, aligned to a cache line.
        unsafe { &*self.start_of(chunk).cast::<Header>() }
    }

    #[inline(always)]
    pub(super) fn header_mut(&mut self, chunk: u32) -> &mut Header {
        // SAFETY: as in `header`, and the borrow of `self` is exclusive.
        unsafe { &mut *self.start_of(chunk).cast::<Header>() }
    }

    #[inline(always)]
    pub(super) fn chunk(&mut self, chunk: u32) -> Chunk<'_> {
        let header = self.start_of(chunk).cast::<Header>();
        // SAFETY: a record has a header, then the pages.
        let pages = unsafe { header.add(1) }.cast::<Hints>();
        // SAFETY: the allocation bitmap follows the pages.
        let allocated = unsafe { pages.add(self.pages) }.cast::<u64>();
        // SAFETY: the boundary bitmap follows the allocation bitmap.
        let bounds = unsafe { allocated.add(self.map_words) };
        Chunk {
            // SAFETY: the record is initialised, its parts are disjoint, and the borrow is
            // exclusive.
            header: unsafe { &mut *header },
            // SAFETY: as above.
            pages: unsafe { slice::from_raw_parts_mut(pages, self.pages) },
            // SAFETY: as above.
            allocated: unsafe { slice::from_raw_parts_mut(allocated, self.map_words) },
            // SAFETY: as above; this bitmap has one more word, for the bit after the last.
            bounds: unsafe { slice::from_raw_parts_mut(bounds, self.map_words + 1) },
            work: &self.work,
        }
    }

    /// Commits the record of a chunk that is not live, and makes the chunk live, without an object.
    pub(super) fn open(&mut self, chunk: u32, backing: &mut impl Backing) -> bool {
        debug_assert!(chunk < self.chunks_max && !self.is_live(chunk));
        if !backing.commit_metadata(self.record(chunk)) {
            return false;
        }
        // INVARIANT: live, and initialised before any other use.
        bits::set(self.live_mut(), chunk);
        self.chunk(chunk).clear();
        true
    }

    /// Removes a chunk and releases its record. Returns the vacant chunks around it.
    pub(super) fn close(&mut self, chunk: u32, backing: &mut impl Backing) -> Range<u32> {
        // INVARIANT: no longer live, and so never read again.
        bits::clear_range(self.live_mut(), chunk, chunk + 1);
        let first = bits::run_start(self.live(), chunk, 0);
        let end = bits::next_one(self.live(), chunk, self.chunks_max);
        let around = self.record(first).start..self.record(end).start;
        backing.release_metadata(self.record(chunk), around);
        first..end
    }
}

const _: () = {
    assert!(size_of::<Header>().is_multiple_of(LINE_BYTES));
    assert!(align_of::<Header>() <= LINE_BYTES);
    assert!(size_of::<Header>().is_multiple_of(align_of::<Hints>()));
    assert!(size_of::<Hints>().is_multiple_of(align_of::<u64>()));
};
