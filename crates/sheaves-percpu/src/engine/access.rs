//! The proof that the engine has started, with what the fast path needs to know.

use core::sync::atomic::{AtomicIsize, Ordering};

/// Where a thread's `rseq_cs` and slot number lie, as offsets from its thread pointer.
///
/// The same in all threads and constant from the start on: copy it into whatever calls
/// [`super::pop`] often.
///
/// # Invariants
/// The engine has started, and both offsets lie in an area that every thread has.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    pub(crate) sequence: isize,
    pub(crate) slot: isize,
}

/// The words of the one [`Access`], both 0 before the start; on one cache line.
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
    /// Starts the engine where that has not happened. A load and a test otherwise.
    #[inline]
    #[must_use]
    pub fn get() -> Access {
        // Acquire pairs with the Release in `publish`: the other word is there too.
        if PUBLISHED.sequence.load(Ordering::Acquire) == 0 {
            super::start();
        }
        // SAFETY: the engine has started.
        unsafe { Access::of_started() }
    }

    /// The same without the test.
    ///
    /// # Safety
    /// The engine has started, and the caller knows it by some ordered way (it has an object, a
    /// cache, or a limit that was raised afterwards).
    #[inline(always)]
    #[must_use]
    pub unsafe fn of_started() -> Access {
        // INVARIANT: the caller vouches for the start.
        Access {
            // Relaxed, both: constant since a start that happened before, see the contract.
            sequence: PUBLISHED.sequence.load(Ordering::Relaxed),
            slot: PUBLISHED.slot.load(Ordering::Relaxed),
        }
    }
}

/// Publishes the words, once.
pub(super) fn publish(sequence: isize, slot: isize) {
    // Relaxed: published by the Release below.
    PUBLISHED.slot.store(slot, Ordering::Relaxed);
    // Release pairs with the Acquire in `get`.
    PUBLISHED.sequence.store(sequence, Ordering::Release);
}
