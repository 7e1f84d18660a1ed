//! Room for a block that the kernel has refused.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_rcu::internal;
use sheaves_slab::internal::chunk;
use sheaves_sys::clock;

/// The least time between two attempts to find what is missing for a block in a smaller heap.
const PAUSE_MS: u64 = 10;

/// Returns everything unused, where that may be enough for a block that could not be mapped: a
/// limit on address space counts what the heap has mapped. The heap may be smaller than the block,
/// and yet have what is missing: since a program may ask for too much again and again, that is
/// tried now and then. True if it was done.
#[cold]
pub(super) fn return_unused(bytes: usize) -> bool {
    static TRIED_MS: AtomicU64 = AtomicU64::new(0);
    let now_ms = clock::coarse_ms();
    // Relaxed, both: a hint.
    let is_soon = now_ms.saturating_sub(TRIED_MS.load(Ordering::Relaxed)) < PAUSE_MS;
    if is_soon && chunk::footprint().mapped_bytes < bytes {
        return false;
    }
    internal::trim();
    TRIED_MS.store(now_ms, Ordering::Relaxed);
    true
}
