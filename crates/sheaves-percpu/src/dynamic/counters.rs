//! Running counts of the allocator: of objects and chunks, for statistics; and of its work, which
//! is the same on every machine, in tests and for benchmarks with the feature `counters`.

#[cfg(any(test, feature = "counters"))]
use core::cell::Cell;

/// Objects, chunks and pages.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) allocations: u64,
    pub(super) frees: u64,
    pub(super) objects_max: u64,
    pub(super) chunks: u64,
    pub(super) chunks_max: u64,
    /// In bits; 0 before the first object.
    pub(super) object_bits_min: u32,
    pub(super) object_bits_max: u32,
    pub(super) populated_pages: u64,
}

impl Totals {
    #[inline]
    pub(super) fn allocated(&mut self, bits: u32) {
        self.allocations += 1;
        self.objects_max = self.objects_max.max(self.allocations - self.frees);
        self.object_bits_max = self.object_bits_max.max(bits);
        // Wrapping: 0 means "none yet" and counts as the largest.
        self.object_bits_min =
            (self.object_bits_min.wrapping_sub(1)).min(bits.wrapping_sub(1)).wrapping_add(1);
    }

    #[inline]
    pub(super) fn freed(&mut self) {
        self.frees += 1;
    }

    pub(super) fn chunk_created(&mut self) {
        self.chunks += 1;
        self.chunks_max = self.chunks_max.max(self.chunks);
    }
}

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
