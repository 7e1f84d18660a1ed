//! The allocator's memory in production: the rows, and a range after them for its metadata.

use core::ops::Range;
use core::ptr::NonNull;

use sheaves_sys::map;

use crate::dynamic::{Backing, PAGE_BYTES};
use crate::memory::handle_map;
use crate::{rows, slots};

/// Bytes of a chunk in one row.
pub(crate) const UNIT_BYTES: usize = 64 << 10;
/// Rows grow by 1/8 of their size, so that the number of system calls is logarithmic.
const GROWTH_SHARE: usize = 8;
/// The smallest step by which metadata grows.
const METADATA_STEP_BYTES: usize = 64 << 10;

/// All rows, and the metadata that describes them.
///
/// Chunks are ranges of offsets, so a chunk is created by committing more of the rows. Rows never
/// shrink; only pages are discarded. [`rows`] has placed the metadata, so an allocator that could
/// not be created has nothing to free.
#[derive(Debug)]
pub(crate) struct Rows;

/// Index of the metadata for [`rows::once`].
const METADATA: usize = 2;

// SAFETY: 1. the metadata has its own range in the rows' address space, aligned to pages and never
// unmapped; 2. what was committed stays readable and writable; 3. only ranges that the allocator
// released are discarded, and only their whole pages.
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

    fn release_metadata(&mut self, range: Range<usize>, around: Range<usize>) {
        let (metadata, pages) = (rows::once(METADATA).start(), rows::whole_pages(range, around));
        if !pages.is_empty() {
            // SAFETY: whole pages whose content the allocator no longer needs.
            unsafe { map::discard(metadata + pages.start, pages.len()) };
        }
    }

    fn create_chunk(&mut self, chunk: usize) -> bool {
        let need = (chunk + 1) * UNIT_BYTES;
        let _slots = slots::SLOTS.lock();
        let committed = rows::committed_bytes();
        // A chunk that was destroyed before is still committed, and so is the first one if a page
        // is as large as a chunk.
        let more = if need > committed { committed / GROWTH_SHARE } else { 0 };
        let wish = need.max(committed + more).min(rows::row_bytes());
        // The map first: every object in committed rows needs its byte.
        let grow = |bytes| handle_map::commit(bytes) && rows::commit(bytes);
        grow(wish) || grow(need)
    }

    fn destroy_chunk(&mut self, chunk: usize, around: Range<usize>) {
        let bytes = |chunks: Range<usize>| chunks.start * UNIT_BYTES..chunks.end * UNIT_BYTES;
        handle_map::discard(bytes(chunk..chunk + 1), bytes(around));
    }

    fn depopulate(&mut self, chunk: usize, pages: Range<usize>, around: Range<usize>) {
        let byte = |page: usize| chunk * UNIT_BYTES + page * PAGE_BYTES;
        let bytes = |pages: Range<usize>| byte(pages.start)..byte(pages.end);
        // SAFETY: the allocator guarantees that no object is on the pages around.
        unsafe { rows::discard(rows::whole_pages(bytes(pages), bytes(around))) };
    }
}

const _: () = assert!(crate::word::BLOCK_BYTES < UNIT_BYTES);
