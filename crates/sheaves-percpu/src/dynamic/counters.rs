//! How much work the allocator does: the same on every machine and in every run.
//!
//! Counted in tests, and for benchmarks with the feature `counters`; otherwise nothing is.

#[cfg(any(test, feature = "counters"))]
use core::cell::Cell;

/// How much work an allocator did since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(
    not(any(test, feature = "counters")),
    expect(unreachable_pub, reason = "public where they are kept")
)]
pub struct Counters {
    /// Chunks that were tested for room, those that had it included.
    pub chunks_tested: u64,
    /// Words of allocation and boundary maps that searches, refreshes and frees read.
    pub words_read: u64,
    /// Blocks whose hints were found anew from the map.
    pub block_refreshes: u64,
    /// Blocks that were visited to find the hints of chunks anew.
    pub blocks_refreshed: u64,
    /// Chunks that were taken out of the search because they did not fit.
    pub relegations: u64,
}

/// The counters of an allocator, where they are kept.
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
            // SAFETY: one thread at a time has the counters, no reference to them is kept, and no
            // change comes back here.
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
