//! A proof that the engine has started, with the offsets that the fast path needs.

use core::sync::atomic::Ordering;

use crate::table::TABLE;

/// Offsets of a thread's `rseq_cs` and slot number (`cpu_id` or `mm_cid`) from its thread pointer.
///
/// They are the same in all threads and constant after the start: keep a copy where transactions
/// are frequent.
///
/// # Invariants
/// The engine has started, and both offsets are in an area that every thread has.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    pub(crate) rseq_cs: isize,
    pub(crate) slot: isize,
}

impl Access {
    /// True once the engine has started.
    #[inline]
    pub(crate) fn is_started() -> bool {
        // Acquire pairs with the Release in `publish`: the other field is set, too.
        TABLE.rseq_cs.load(Ordering::Acquire) != 0
    }

    /// The access, without a test whether the engine has started.
    ///
    /// # Safety
    /// The engine's start happened before this call. The caller knows it because it has an object
    /// or a cache, or has read a limit that was raised after the start.
    #[inline(always)]
    #[must_use]
    pub unsafe fn of_started() -> Access {
        // INVARIANT: the caller guarantees the start.
        Access {
            // Relaxed, both: constant after the start, which happened before, see the contract.
            rseq_cs: TABLE.rseq_cs.load(Ordering::Relaxed),
            slot: TABLE.slot.load(Ordering::Relaxed),
        }
    }
}

/// Publishes the offsets, once.
pub(super) fn publish(access: Access) {
    // Relaxed: published by the Release below.
    TABLE.slot.store(access.slot, Ordering::Relaxed);
    // Release pairs with the Acquire in `is_started`.
    TABLE.rseq_cs.store(access.rseq_cs, Ordering::Release);
}
