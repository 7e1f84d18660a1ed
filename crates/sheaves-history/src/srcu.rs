//! A domain of sleepable RCU that waits for one of its two indexes, which may be **too early**.
//!
//! **Source.** Linux, `kernel/srcu.c` of 2006: one flip of the index, and one drain of the index
//! that was current. In the kernel `synchronize_sched` before and after the flip made that correct:
//! it waits for readers that have loaded the index but have not counted themselves in yet. "rcu:
//! Implement a variant of Peter's SRCU algorithm" (2012) did without it and drains both indexes.
//!
//! **Reproduced.** Counts of entered and left sections for each slot and index, one flip and one
//! drain, with membarrier for order, and **without** a replacement for `synchronize_sched`. So a
//! reader that has loaded the index before an earlier flip counts itself in at the index that is
//! not drained. The test of `sheaves-rcu` that stops a reader at each of its instructions finds
//! that.

use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use std::sync::{Mutex, PoisonError};

use sheaves_percpu::memory::Error;
use sheaves_percpu::{CellRef, PerCpu, SlotCell, Zeroed, field};
use sheaves_sys::{membarrier, thread};

/// Counts of a slot, for each index.
#[repr(C)]
struct Counts {
    entered: SlotCell<u64>,
    left: SlotCell<u64>,
    entered_flipped: SlotCell<u64>,
    left_flipped: SlotCell<u64>,
}

// SAFETY: zero is a valid value of every field.
unsafe impl Zeroed for Counts {}

/// Time that a drain sleeps between two checks of the counts.
const NAP_NS: u64 = 10_000;

/// A domain whose grace periods drain one index.
pub struct Srcu {
    counts: PerCpu<Counts>,
    /// True while sections count at the second index.
    flipped: AtomicBool,
    leader: Mutex<()>,
}

/// A read section of a domain. It ends when the guard is dropped.
#[must_use = "the read section ends when the guard is dropped"]
pub struct SrcuGuard<'domain> {
    domain: &'domain Srcu,
    flipped: bool,
}

impl core::fmt::Debug for Srcu {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Srcu").finish_non_exhaustive()
    }
}

impl core::fmt::Debug for SrcuGuard<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SrcuGuard").finish_non_exhaustive()
    }
}

impl Srcu {
    /// A domain without sections.
    ///
    /// # Errors
    /// When per-CPU memory is out, see [`Error`].
    ///
    /// # Panics
    /// If the kernel refuses membarrier.
    pub fn new() -> Result<Srcu, Error> {
        assert!(membarrier::register_fence_all(), "membarrier is unavailable");
        let (counts, flipped) = (PerCpu::zeroed()?, AtomicBool::new(false));
        Ok(Srcu { counts, flipped, leader: Mutex::new(()) })
    }

    /// Begins a section.
    #[inline]
    pub fn read(&self) -> SrcuGuard<'_> {
        // Relaxed: which index does not matter.
        let flipped = self.flipped.load(Ordering::Relaxed);
        self.entered(flipped).add(1);
        // SeqCst, for the compiler alone: partner is the membarrier of `synchronize`.
        compiler_fence(Ordering::SeqCst);
        SrcuGuard { domain: self, flipped }
    }

    /// Waits for the sections at the current index, which may be **too early**.
    ///
    /// # Panics
    /// If the kernel refuses membarrier.
    pub fn synchronize(&self) {
        let _leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: under the lock; readers may take an old index.
        let flipped = self.flipped.fetch_xor(true, Ordering::Relaxed);
        loop {
            let left = self.left(flipped).sum();
            assert!(membarrier::fence_all(), "membarrier is unavailable");
            if self.entered(flipped).sum() == left {
                return;
            }
            thread::sleep_ns(NAP_NS);
        }
    }

    fn entered(&self, flipped: bool) -> CellRef<'_, u64> {
        match flipped {
            false => self.counts.cell(field!(Counts, entered)),
            true => self.counts.cell(field!(Counts, entered_flipped)),
        }
    }

    fn left(&self, flipped: bool) -> CellRef<'_, u64> {
        match flipped {
            false => self.counts.cell(field!(Counts, left)),
            true => self.counts.cell(field!(Counts, left_flipped)),
        }
    }
}

impl Drop for SrcuGuard<'_> {
    fn drop(&mut self) {
        // SeqCst, for the compiler alone: as in `Srcu::read`.
        compiler_fence(Ordering::SeqCst);
        self.domain.left(self.flipped).add(1);
    }
}
