//! Locks of a few bits in words that have other state: they name the generation of their owner, but
//! not its thread.
//!
//! The child of a fork may inherit such a lock that another thread of its parent held. Of the
//! threads of older generations only the one that forked is in the child. Each thread counts the
//! locks that it holds, so the child knows how many of them are that thread's, but not which: only
//! when it has released them all is any other lock of an older generation known to be orphaned. A
//! thread that finds one takes it over, and must repair what it guards.

use core::sync::atomic::{Ordering, compiler_fence};

use crate::fork::{self, generation};
use crate::tls;

/// Counts a lock, before the calling thread takes it. Returns the generation for its word.
#[inline]
#[must_use]
pub fn begin() -> usize {
    tls::set_bit_locks(tls::bit_locks().wrapping_add(1));
    // SeqCst, for the compiler alone: a signal handler that forks sees the steps in their order.
    compiler_fence(Ordering::SeqCst);
    generation::generation()
}

/// Ends what [`begin`] began, when the thread has released the lock, or could not take it.
#[inline]
pub fn end() {
    // SeqCst, for the compiler alone: as above.
    compiler_fence(Ordering::SeqCst);
    let count = tls::bit_locks().wrapping_sub(1);
    tls::set_bit_locks(count);
    generation::note_held(count);
}

/// True if no thread of this process holds a lock that was taken in this generation, of which the
/// bits of `mask` are known.
pub fn is_orphaned(generation: usize, mask: usize) -> bool {
    fork::run_pending_handlers();
    (generation::generation() ^ generation) & mask != 0 && !generation::forker_holds()
}
