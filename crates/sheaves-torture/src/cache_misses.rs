//! Stores that miss the CPU's caches, which delay the visibility of the stores after them.
//!
//! Stores become visible in order. After some that miss the caches, a store stays in the CPU's
//! store buffer for up to a microsecond, while the instructions after it continue. Other CPUs do
//! not see the store unless a membarrier makes the CPU wait.

use crate::random::Random;

/// Number of words that are written to at random: more than a CPU's own caches hold.
const WORDS: usize = 4 << 20;
/// Number of stores at a time.
const STORES: usize = 24;

pub(crate) struct CacheMisses(Vec<u64>);

impl CacheMisses {
    pub(crate) fn new() -> CacheMisses {
        // Nothing reads them: otherwise a compiler may leave the stores out.
        CacheMisses(core::hint::black_box(vec![0; WORDS]))
    }

    /// Delays the visibility of the caller's next store for as long as possible.
    #[inline]
    pub(crate) fn delay_store(&mut self, random: &mut Random) {
        for _ in 0..STORES {
            // Nothing is loaded: a load would fetch the line before the store leaves the pipeline,
            // and no store would wait.
            self.0[random.below(WORDS as u64) as usize] = 1;
        }
    }
}
