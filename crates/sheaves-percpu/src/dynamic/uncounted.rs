//! The allocator's work, which only tests and benchmarks count: `tests/unit/counters.rs`.

#[derive(Debug)]
pub(super) struct Work;

impl Work {
    pub(super) fn new() -> Work {
        Work
    }
    #[inline(always)]
    pub(super) fn chunk_tested(&self) {}
    #[inline(always)]
    pub(super) fn chunk_relegated(&self) {}
    #[inline(always)]
    pub(super) fn page_refreshed(&self) {}
    #[inline(always)]
    pub(super) fn pages_refreshed(&self, _pages: usize) {}
    #[inline(always)]
    pub(super) fn words_read(&self, _from: u32, _to: u32) {}
    #[inline(always)]
    pub(super) fn allocated(&self, _bytes: usize) {}
}
