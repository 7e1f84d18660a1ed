//! What the allocator needs from whoever owns the memory.

use core::ops::Range;
use core::ptr::NonNull;

/// The owner of the memory of all slots and of the allocator's metadata.
///
/// The allocator works on offsets and never touches the memory that it hands out. It tells its
/// backing which chunks exist and which of their pages are in use, always for all slots at once.
/// A page is [`crate::dynamic::PAGE_BYTES`] of one chunk in every slot, and is named by its chunk
/// and its index in there.
///
/// Everything is called from inside an operation of the allocator, so under the lock that its
/// owner holds around it; nothing here may call the allocator. `free` calls nothing here.
///
/// # Safety
/// The memory that [`Backing::reserve_metadata`] names is aligned to 64 bytes, is used by nobody
/// else, and stays where it is as long as the allocator exists. Inside of it, each range that was
/// committed and not released since is initialised memory that can be read and written, and holds
/// what was written last.
pub unsafe trait Backing {
    /// Sets address space aside for all metadata, once. `None`: the allocator cannot be made.
    fn reserve_metadata(&mut self, bytes: usize) -> Option<NonNull<u8>>;

    /// Makes bytes `range` of the metadata usable, with any content. Ranges are multiples of 64,
    /// not of pages: parts of the pages at their ends may be in use already and keep their
    /// content. False: the request that needed it is refused.
    fn commit_metadata(&mut self, range: Range<usize>) -> bool {
        let _ = range;
        true
    }

    /// Nothing in bytes `range` of the metadata is needed any more; what lies in whole pages
    /// inside of it may be given back until the range is committed again.
    fn release_metadata(&mut self, range: Range<usize>) {
        let _ = range;
    }

    /// Reserves chunk number `chunk` in every slot. False: the request is refused.
    fn create_chunk(&mut self, chunk: usize) -> bool {
        let _ = chunk;
        true
    }

    /// Undoes [`Backing::create_chunk`]; no page of the chunk is populated.
    fn destroy_chunk(&mut self, chunk: usize) {
        let _ = chunk;
    }

    /// Gives pages of a chunk back in every slot; there is no object on them.
    fn depopulate(&mut self, chunk: usize, pages: Range<usize>) {
        let _ = (chunk, pages);
    }
}
