//! Where the metadata of chunks lies: one flat record for each chunk number, in memory that the
//! backing gave.
//!
//! ```text
//!   live chunks | record 0 | record 1 | ...
//!   bitmap        header, blocks, allocation map, boundary map
//! ```
//!
//! Records are whole cache lines, and an odd number of them, so that the headers of neighbouring
//! chunks do not share the few places of a cache that a power of two would leave them.
//!
//! # Invariants
//! A record is committed and initialised exactly while its chunk's bit in the bitmap is one.

use core::ops::Range;
use core::ptr::NonNull;
use core::slice;

use crate::dynamic::backing::Backing;
use crate::dynamic::bits;
use crate::dynamic::chunk::{Chunk, Header};
use crate::dynamic::config::{Geometry, PAGE_BYTES};
use crate::dynamic::counters::Work;
use crate::dynamic::error::NewError;
use crate::dynamic::hints::{BLOCK_WORDS, Hints};

const LINE_BYTES: usize = 64;

/// The metadata of all chunks.
#[derive(Debug)]
pub(super) struct Records {
    base: NonNull<u8>,
    /// Chunk numbers, and bits of the bitmap that mean something.
    chunks_max: u32,
    pages: usize,
    map_words: usize,
    /// From `base` to record 0.
    bitmap_bytes: usize,
    record_bytes: usize,
    pub(super) work: Work,
}

// SAFETY: the metadata belongs to the records alone, as `Backing` promises.
unsafe impl Send for Records {}

impl Records {
    pub(super) fn new(geometry: &Geometry, backing: &mut impl Backing) -> Result<Self, NewError> {
        let chunks_max = geometry.config.chunks_max;
        let pages = geometry.pages as usize;
        let map_words = pages * BLOCK_WORDS;
        let bytes = size_of::<Header>() + pages * size_of::<Hints>() + (2 * map_words + 1) * 8;
        let record_bytes = (bytes.div_ceil(LINE_BYTES) | 1) * LINE_BYTES;
        let bitmap_bytes = chunks_max.div_ceil(8).next_multiple_of(LINE_BYTES);
        let all = record_bytes.checked_mul(chunks_max).and_then(|b| b.checked_add(bitmap_bytes));
        let base = backing.reserve_metadata(all.ok_or(NewError::BadChunks)?);
        let base = base.ok_or(NewError::NoMemory)?;
        if !backing.commit_metadata(0..bitmap_bytes) {
            return Err(NewError::NoMemory);
        }
        let chunks_max = chunks_max as u32;
        let work = Work::default();
        let mut records =
            Records { base, chunks_max, pages, map_words, bitmap_bytes, record_bytes, work };
        records.live_mut().fill(0);
        Ok(records)
    }

    /// Bytes of the metadata of one chunk.
    pub(super) fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    /// One bit for each chunk number: does the chunk exist?
    #[inline(always)]
    fn live(&self) -> &[u64] {
        let words = self.base.as_ptr().cast::<u64>();
        // SAFETY: the bitmap was committed in `new` and is never released; nobody else uses it.
        unsafe { slice::from_raw_parts(words, self.bitmap_bytes / 8) }
    }

    fn live_mut(&mut self) -> &mut [u64] {
        let words = self.base.as_ptr().cast::<u64>();
        // SAFETY: as in `live`, and we have the records to ourselves.
        unsafe { slice::from_raw_parts_mut(words, self.bitmap_bytes / 8) }
    }

    #[inline(always)]
    pub(super) fn is_live(&self, chunk: u32) -> bool {
        bits::is_one(self.live(), chunk)
    }

    /// The first chunk from number `from` on.
    pub(super) fn next_live(&self, from: u32) -> Option<u32> {
        let chunk = bits::next_one(self.live(), from, self.chunks_max);
        (chunk < self.chunks_max).then_some(chunk)
    }

    /// The smallest number that no chunk has.
    pub(super) fn first_vacant(&self) -> Option<u32> {
        let chunk = bits::next_zero(self.live(), 0, self.chunks_max);
        (chunk < self.chunks_max).then_some(chunk)
    }

    /// Bytes of a chunk's record, counted from the base.
    fn record(&self, chunk: u32) -> Range<usize> {
        let start = self.bitmap_bytes + chunk as usize * self.record_bytes;
        start..start + self.record_bytes
    }

    /// Start of a live chunk's record.
    #[inline(always)]
    fn place(&self, chunk: u32) -> *mut u8 {
        debug_assert!(self.is_live(chunk));
        let start = self.bitmap_bytes + chunk as usize * self.record_bytes;
        // SAFETY: `chunk` is below `chunks_max`, because numbers of chunks come from this bitmap.
        unsafe { self.base.as_ptr().add(start) }
    }

    /// The header of a live chunk.
    #[inline(always)]
    pub(super) fn header(&self, chunk: u32) -> &Header {
        // SAFETY: a live record is initialised and begins with its header, aligned to its lines.
        unsafe { &*self.place(chunk).cast::<Header>() }
    }

    /// The header of a live chunk, to change it.
    #[inline(always)]
    pub(super) fn header_mut(&mut self, chunk: u32) -> &mut Header {
        // SAFETY: as in `header`, and we have the records to ourselves.
        unsafe { &mut *self.place(chunk).cast::<Header>() }
    }

    /// All of a live chunk's metadata.
    #[inline(always)]
    pub(super) fn chunk(&mut self, chunk: u32) -> Chunk<'_> {
        let header = self.place(chunk).cast::<Header>();
        // SAFETY: a record holds a header, then the blocks.
        let blocks = unsafe { header.add(1) }.cast::<Hints>();
        // SAFETY: after the blocks comes the allocation map.
        let allocated = unsafe { blocks.add(self.pages) }.cast::<u64>();
        // SAFETY: after the allocation map comes the boundary map.
        let bounds = unsafe { allocated.add(self.map_words) };
        Chunk {
            // SAFETY: the record is initialised, its parts are disjoint, and it is ours alone.
            header: unsafe { &mut *header },
            // SAFETY: as above.
            blocks: unsafe { slice::from_raw_parts_mut(blocks, self.pages) },
            // SAFETY: as above.
            allocated: unsafe { slice::from_raw_parts_mut(allocated, self.map_words) },
            // SAFETY: as above; this map has one word more, for the bit after the last.
            bounds: unsafe { slice::from_raw_parts_mut(bounds, self.map_words + 1) },
            work: &self.work,
        }
    }

    /// Commits a record that no chunk has and makes the chunk live, without an object.
    pub(super) fn open(&mut self, chunk: u32, backing: &mut impl Backing) -> bool {
        debug_assert!(chunk < self.chunks_max && !self.is_live(chunk));
        if !backing.commit_metadata(self.record(chunk)) {
            return false;
        }
        // INVARIANT: live, hence initialised before anybody else sees it.
        bits::set(self.live_mut(), chunk);
        self.chunk(chunk).clear();
        true
    }

    /// Ends a chunk and lets go of the pages on which no live record is left.
    pub(super) fn close(&mut self, chunk: u32, backing: &mut impl Backing) {
        // INVARIANT: no longer live, hence never read again.
        bits::clear_range(self.live_mut(), chunk, chunk + 1);
        let record = self.record(chunk);
        let first = self.first_byte_free(chunk).max(record.start & !(PAGE_BYTES - 1));
        let last = self.last_byte_free(chunk).min(record.end.next_multiple_of(PAGE_BYTES));
        backing.release_metadata(first..last);
    }

    /// Where the records without a chunk begin that end with this one.
    fn first_byte_free(&self, chunk: u32) -> usize {
        self.record(bits::run_start(self.live(), chunk, 0)).start
    }

    /// Where the records without a chunk end that begin with this one.
    fn last_byte_free(&self, chunk: u32) -> usize {
        self.record(bits::next_one(self.live(), chunk, self.chunks_max)).start
    }
}

const _: () = {
    assert!(size_of::<Header>().is_multiple_of(LINE_BYTES));
    assert!(align_of::<Header>() <= LINE_BYTES);
    assert!(size_of::<Header>().is_multiple_of(align_of::<Hints>()));
    assert!(size_of::<Hints>().is_multiple_of(align_of::<u64>()));
};
