//! Stores that miss the processor's caches, to keep those behind them from being seen.
//!
//! Stores become visible in order. Behind some that miss the caches, a store stays in the processor
//! for up to a microsecond, while what comes after it goes on: unless a membarrier makes the
//! processor wait, others do not see it.

use crate::random::Random;

/// Words that are written to, at random: more than a processor's own caches hold.
const WORDS: usize = 4 << 20;
/// How many of them at a time.
const STORES: usize = 24;

pub(crate) struct Clutter(Vec<u64>);

impl Clutter {
    pub(crate) fn new() -> Clutter {
        Clutter(vec![0; WORDS])
    }

    /// What the caller stores next is hidden for as long as can be.
    #[inline]
    pub(crate) fn store(&mut self, random: &mut Random) {
        for _ in 0..STORES {
            self.0[random.below(WORDS as u64) as usize] += 1;
        }
    }
}
