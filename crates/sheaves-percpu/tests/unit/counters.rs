//! Counts of the allocator's work, which is the same on every machine. They are kept in tests, and
//! for benchmarks with the feature `counters`.

use core::cell::Cell;

use crate::dynamic::allocator::Allocator;
use crate::dynamic::backing::Backing;
use crate::dynamic::bits;
use crate::dynamic::config::bytes_of;

/// How much work an allocator has done since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Chunks that were tested for space, including those that had it.
    pub chunks_tested: u64,
    /// Words of allocation and boundary bitmaps that searches, refreshes and frees have read.
    pub words_read: u64,
    /// Pages whose hints were recomputed from the bitmap.
    pub page_refreshes: u64,
    /// Pages that were visited to recompute the hints of chunks.
    pub pages_refreshed: u64,
    /// Chunks that were taken out of the search because they did not fit.
    pub relegations: u64,
    /// Size of the smallest object so far, rounded up to a multiple of 4; 0 before the first.
    pub object_bytes_min: usize,
}

/// The counters of an allocator.
#[derive(Debug)]
pub(super) struct Work(Cell<Counters>);

impl Work {
    pub(super) fn new() -> Work {
        Work(Cell::new(Counters::default()))
    }

    fn count(&self, change: impl FnOnce(&mut Counters)) {
        // SAFETY: one thread at a time uses the counters, no reference to them is kept, and no
        // `change` calls this again.
        change(unsafe { &mut *self.0.as_ptr() });
    }

    pub(super) fn chunk_tested(&self) {
        self.count(|work| work.chunks_tested += 1);
    }

    pub(super) fn chunk_relegated(&self) {
        self.count(|work| work.relegations += 1);
    }

    pub(super) fn page_refreshed(&self) {
        self.count(|work| work.page_refreshes += 1);
    }

    pub(super) fn pages_refreshed(&self, pages: usize) {
        self.count(|work| work.pages_refreshed += pages as u64);
    }

    /// A search has read the words between two positions.
    pub(super) fn words_read(&self, from: u32, to: u32) {
        self.count(|work| work.words_read += words_between(from, to));
    }

    /// An object of this many bytes has been allocated.
    pub(super) fn allocated(&self, bytes: usize) {
        self.count(|work| {
            let least = if work.object_bytes_min == 0 { bytes } else { work.object_bytes_min };
            work.object_bytes_min = least.min(bytes);
        });
    }

    pub(super) fn done(&self) -> Counters {
        self.0.get()
    }
}

/// Number of words that a search from one position to another one reads.
fn words_between(from: u32, to: u32) -> u64 {
    u64::from((to / u64::BITS).saturating_sub(from / u64::BITS) + 1)
}

impl<B: Backing> Allocator<B> {
    /// Work done since the allocator was created.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.records.work.done()
    }

    /// Free bytes, in one slot, that are useless even for the smallest object size so far, because
    /// their runs are shorter. Reads all bitmaps.
    pub fn unusable_bytes(&mut self) -> usize {
        let smallest = self.counters().object_bytes_min;
        let mut bytes = 0;
        let mut from = 0;
        while let Some(chunk) = self.records.next_live(from) {
            let view = self.records.chunk(chunk);
            let runs = bits::zero_runs(view.allocated, 0, view.header.hints.bits);
            let sizes = runs.map(|run| bytes_of(run.bits()));
            bytes += sizes.filter(|size| *size < smallest).sum::<usize>();
            from = chunk + 1;
        }
        bytes
    }
}
