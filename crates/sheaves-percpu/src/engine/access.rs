//! A proof that the engine has started, with the offsets that the fast path needs.

use core::sync::atomic::{AtomicIsize, Ordering};

/// Offsets of a thread's `rseq_cs` and slot number (`cpu_id` or `mm_cid`) from its thread pointer.
///
/// They are the same in all threads and constant after the start: keep a copy where [`super::pop`]
/// is called often.
///
/// # Invariants
/// The engine has started, and both offsets are in an area that every thread has.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    pub(crate) sequence: isize,
    pub(crate) slot: isize,
}

/// The fields of the only [`Access`], both 0 before the start; on one cache line.
#[doc(hidden)]
#[derive(Debug)]
#[repr(C, align(16))]
pub struct Published {
    sequence: AtomicIsize,
    slot: AtomicIsize,
}

/// Public for the assembly of [`crate::pop_by_size`] and [`crate::push_by_owner`] only.
#[doc(hidden)]
pub static PUBLISHED: Published =
    Published { sequence: AtomicIsize::new(0), slot: AtomicIsize::new(0) };

impl Access {
    /// Starts the engine if it has not started. Otherwise a load and a test.
    #[inline]
    #[must_use]
    pub fn get() -> Access {
        // Acquire pairs with the Release in `publish`: the other field is set, too.
        if PUBLISHED.sequence.load(Ordering::Acquire) == 0 {
            super::start();
        }
        // SAFETY: the engine has started.
        unsafe { Access::of_started() }
    }

    /// [`Access::get`] without the test.
    ///
    /// # Safety
    /// The engine's start happened before this call. The caller knows it from an object, a cache,
    /// or a limit that was raised afterwards.
    #[inline(always)]
    #[must_use]
    pub unsafe fn of_started() -> Access {
        // INVARIANT: the caller guarantees the start.
        Access {
            // Relaxed, both: constant after the start, which happened before, see the contract.
            sequence: PUBLISHED.sequence.load(Ordering::Relaxed),
            slot: PUBLISHED.slot.load(Ordering::Relaxed),
        }
    }
}

/// Publishes the offsets, once.
pub(super) fn publish(sequence: isize, slot: isize) {
    // Relaxed: published by the Release below.
    PUBLISHED.slot.store(slot, Ordering::Relaxed);
    // Release pairs with the Acquire in `get`.
    PUBLISHED.sequence.store(sequence, Ordering::Release);
}
