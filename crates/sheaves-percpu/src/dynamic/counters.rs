//! Counts of the allocator's work, which is the same on every machine. They are kept in tests, and
//! for benchmarks with the feature `counters`.

#[cfg(any(test, feature = "counters"))]
use core::cell::Cell;

use crate::dynamic::bits;

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
    pub page_refreshes: u64,
    /// Blocks that were visited to recompute the hints of chunks.
    pub pages_refreshed: u64,
    /// Chunks that were taken out of the search because they did not fit.
    pub relegations: u64,
    /// Size of the smallest object so far, rounded up to a multiple of 4; 0 before the first.
    pub object_bytes_min: usize,
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

    /// An object of this many bytes has been allocated.
    #[inline(always)]
    pub(super) fn allocated(&self, bytes: usize) {
        self.count(|work| {
            let least = if work.object_bytes_min == 0 { bytes } else { work.object_bytes_min };
            work.object_bytes_min = least.min(bytes);
        });
    }

    /// A search has read the words between two positions.
    #[inline(always)]
    pub(super) fn words_read(&self, from: u32, to: u32) {
        self.count(|work| work.words_read += bits::words_between(from, to));
    }

    #[cfg(any(test, feature = "counters"))]
    pub(super) fn done(&self) -> Counters {
        self.done.get()
    }
}
