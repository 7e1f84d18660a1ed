//! The allocator's memory in production: the rows, and a place behind them for its metadata.

use core::ops::Range;
use core::ptr::NonNull;

use sheaves_sys::map;

use crate::area::rows;
use crate::dynamic::{Backing, PAGE_BYTES};
use crate::memory::live;
use crate::slots;

/// Bytes of a chunk in one row. Large enough that a program with a million objects has some
/// hundred chunks, small enough that an empty one is worth nothing.
pub(crate) const UNIT_BYTES: usize = 64 << 10;
/// Rows grow by this share of what they are, so that the number of system calls is logarithmic.
const GROWTH_SHARE: usize = 8;
/// The least by which metadata grows.
const METADATA_STEP_BYTES: usize = 64 << 10;

/// All rows, and the metadata that says what is in them.
///
/// Chunks are ranges of offsets, so making one is committing rows further. Rows are never made
/// smaller: what goes back to the system is pages. Nothing is populated in advance, so that a page
/// of a slot costs memory only once the slot has written to it.
///
/// All of it is where [`rows`] says, so that a start that fails has nothing to give back.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Offset of the first chunk, a multiple of its size: not 0 in a child of a fork whose
    /// allocator is not the first.
    pub(super) base: usize,
}

impl Rows {
    /// The offset of a chunk.
    fn offset(&self, chunk: usize) -> usize {
        self.base + chunk * UNIT_BYTES
    }
}

/// Where the metadata is, see [`rows::once`].
const METADATA: usize = 2;

// SAFETY: 1. the metadata has a part of the space of the rows to itself, aligned to pages and never
// given back; 2. what was committed stays readable and writable; 3. only ranges that the allocator
// released are given back, and only as far as they are whole pages.
unsafe impl Backing for Rows {
    fn reserve_metadata(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let part = rows::once(METADATA);
        if bytes > part.bytes_max() {
            return None;
        }
        NonNull::new(core::ptr::with_exposed_provenance_mut(part.start()))
    }

    fn commit_metadata(&mut self, range: Range<usize>) -> bool {
        let wish = range.end.next_multiple_of(METADATA_STEP_BYTES);
        let wish = wish.min(rows::once(METADATA).bytes_max());
        rows::commit_once(METADATA, wish) || rows::commit_once(METADATA, range.end)
    }

    fn release_metadata(&mut self, range: Range<usize>) {
        let (page, metadata) = (map::page_bytes(), rows::once(METADATA).start());
        let (start, end) = (range.start.next_multiple_of(page), range.end / page * page);
        if start < end {
            // SAFETY: whole pages of which the allocator needs nothing any more.
            unsafe { map::discard(metadata + start, end - start) };
        }
    }

    fn create_chunk(&mut self, chunk: usize) -> bool {
        let need = self.offset(chunk + 1);
        let _slots = slots::SLOTS.lock();
        let committed = rows::committed_bytes();
        let wish = if need <= committed {
            // So it is for the first chunk where a page is as large: the head of the row is there.
            committed
        } else {
            need.max(committed + committed / GROWTH_SHARE).min(rows::row_bytes())
        };
        // Marks first: whatever lies in committed rows has one.
        let grow = |bytes| live::commit(bytes) && rows::commit(bytes);
        grow(wish) || grow(need)
    }

    fn destroy_chunk(&mut self, chunk: usize) {
        live::forget(self.offset(chunk), self.offset(chunk + 1));
    }

    fn depopulate(&mut self, chunk: usize, pages: Range<usize>) {
        let start = self.offset(chunk) + pages.start * PAGE_BYTES;
        // SAFETY: the allocator vouches that no object lies on these pages.
        unsafe { rows::discard(start, pages.len() * PAGE_BYTES) };
    }
}

const _: () = assert!(crate::area::BLOCK_BYTES < UNIT_BYTES);
