//! Counts of the allocator's work, which are the same on every machine and in every run.
//!
//! They are kept in tests, and for benchmarks with the feature `counters`.

#[cfg(any(test, feature = "counters"))]
use core::cell::Cell;

/// How much work an allocator has done since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(
    not(any(test, feature = "counters")),
    expect(unreachable_pub, reason = "public where they are kept")
)]
pub struct Counters {
    /// Chunks that were tested for space, including those that had it.
    pub chunks_tested: u64,
    /// Words of allocation and boundary bitmaps that searches, refreshes and frees have read.
    pub words_read: u64,
    /// Blocks whose hints were recomputed from the bitmap.
    pub block_refreshes: u64,
    /// Blocks that were visited to recompute the hints of chunks.
    pub blocks_refreshed: u64,
    /// Chunks that were taken out of the search because they did not fit.
    pub relegations: u64,
}

/// The counters of an allocator, in the builds that keep them.
#[derive(Debug, Default)]
pub(super) struct Work {
    #[cfg(any(test, feature = "counters"))]
    done: Cell<Counters>,
}

impl Work {
    #[inline(always)]
    pub(super) fn count(&self, change: impl FnOnce(&mut Counters)) {
        #[cfg(any(test, feature = "counters"))]
        {
            // SAFETY: one thread at a time uses the counters, no reference to them is kept, and no
            // `change` calls this again.
            change(unsafe { &mut *self.done.as_ptr() });
        }
        #[cfg(not(any(test, feature = "counters")))]
        let _ = change;
    }

    #[cfg(any(test, feature = "counters"))]
    pub(super) fn done(&self) -> Counters {
        self.done.get()
    }
}
