//! What the allocator requires from the owner of the memory.

use core::ops::Range;
use core::ptr::NonNull;

/// The owner of the memory of all slots and of the allocator's metadata.
///
/// The allocator tells it which chunks exist and which of their pages are in use, always for all
/// slots at once. A page is [`crate::dynamic::PAGE_BYTES`] of one chunk in every slot, and is
/// identified by its chunk and its index in it.
///
/// Everything here is called inside an operation of the allocator other than `free_many`, so under
/// the lock that its owner holds. Nothing here may call the allocator.
///
/// What is given back comes with `around`: it, and what is vacant beside it. Where the kernel's
/// pages are larger, one of them goes back with the last of its parts.
///
/// # Safety
/// The memory from [`Backing::reserve_metadata`] is aligned to 64 bytes, has no other user, and
/// stays valid while the allocator exists. Each range of it that was committed and not released
/// since is initialised memory that can be read and written, and holds what was written last.
pub unsafe trait Backing {
    /// Reserves address space for all metadata, once. `None`: the allocator cannot be created.
    fn reserve_metadata(&mut self, bytes: usize) -> Option<NonNull<u8>>;

    /// Makes a range of bytes of the metadata usable, with arbitrary content. Ranges are multiples
    /// of 64, not of pages: parts of the pages at their ends may already be in use and keep their
    /// content. False: the request that needed it fails.
    fn commit_metadata(&mut self, _range: Range<usize>) -> bool {
        true
    }

    /// A range of bytes of the metadata is no longer needed; its whole pages may be discarded until
    /// it is committed again.
    fn release_metadata(&mut self, _range: Range<usize>, _around: Range<usize>) {}

    /// Reserves a chunk, by its number, in every slot. False: the request fails.
    fn create_chunk(&mut self, _chunk: usize) -> bool {
        true
    }

    /// Undoes [`Backing::create_chunk`]; no page of the chunk is populated. `around`: chunks.
    fn destroy_chunk(&mut self, _chunk: usize, _around: Range<usize>) {}

    /// Discards pages of a chunk in every slot; no object is on them.
    fn depopulate(&mut self, _chunk: usize, _pages: Range<usize>, _around: Range<usize>) {}
}
