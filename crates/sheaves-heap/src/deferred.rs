//! Large blocks that are freed once their readers are gone.

use core::ptr::with_exposed_provenance_mut;

use sheaves_rcu::defer::Channel;

use crate::slow;

static LARGE: Channel = Channel::new("large blocks", free);

/// Defers a large block of that many bytes.
pub(crate) fn defer(address: usize, bytes: usize) {
    // SAFETY: the caller of `free_rcu` gives the block up, and it came from this heap.
    unsafe { LARGE.free_later(with_exposed_provenance_mut(address), bytes) };
}

/// # Safety
/// The block is one of this heap that nobody uses any more.
unsafe fn free(block: *mut u8) {
    slow::free_plain(block.expose_provenance());
}
