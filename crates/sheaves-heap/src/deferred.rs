//! Large blocks that are freed after a grace period.

use core::ptr::with_exposed_provenance_mut;

use sheaves_rcu::defer::Channel;

use crate::block;

static LARGE: Channel = Channel::new("large blocks", free);

/// Defers the free of a large block of `bytes`.
pub(crate) fn defer(address: usize, bytes: usize) {
    // SAFETY: the caller of `free_rcu` gives the block up, and it came from this heap.
    unsafe { LARGE.free_later(with_exposed_provenance_mut(address), bytes) };
}

/// # Safety
/// The block is from this heap and no longer used.
unsafe fn free(block: *mut u8) {
    block::free(block.expose_provenance());
}
