//! How much goes back at once where there is no keeper, because too much is free.
//!
//! A program that fills and empties its memory again and again would have a page fault for each
//! page each time. So in each `SHEAVES_DECAY_MS` as much goes back as there was at most: one that
//! frees all it has, once, keeps nothing, for its last free may be its last call. What is freed
//! after that stays for the rest of the time.

use sheaves_sys::clock;

use crate::space::limit;

/// What went back since a time, in granules.
#[derive(Debug)]
pub(super) struct Share {
    since_ms: u64,
    /// How many had been discarded then.
    discarded: u64,
    /// The most that was in use or dirty since then, as far as it was asked.
    most: u64,
}

impl Share {
    pub(super) const fn new() -> Share {
        Share { since_ms: 0, discarded: 0, most: 0 }
    }

    /// How many more may go back at once. `held` are in use or dirty, `discarded` is the number of
    /// those that were discarded so far.
    pub(super) fn left(&mut self, held: usize, discarded: u64) -> u64 {
        let Some(decay_ms @ 1..) = limit::decay_ms() else { return u64::MAX };
        let now_ms = clock::coarse_ms();
        if now_ms.saturating_sub(self.since_ms) >= decay_ms {
            *self = Share { since_ms: now_ms, discarded, most: 0 };
        }
        self.most = self.most.max(held as u64);
        self.most.saturating_sub(discarded - self.discarded)
    }

    /// True if half of it has gone.
    pub(super) fn is_half_gone(&mut self, held: usize, discarded: u64) -> bool {
        self.left(held, discarded) < self.most / 2
    }
}
