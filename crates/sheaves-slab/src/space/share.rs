//! How much goes back at once where there is no keeper, because too much is free.
//!
//! A program that fills and empties its memory again and again would have a page fault for each
//! page each time. So in each `SHEAVES_DECAY_MS` as much goes back as there was at most: one that
//! frees all it has, once, keeps nothing, for its last free may be its last call. What is freed
//! after that stays for the rest of the time.

use sheaves_sys::clock;

use crate::space::limit;

/// What went back since a time, of granules or of bytes of large blocks.
#[derive(Debug)]
pub struct Share {
    since_ms: u64,
    /// How much had gone back then.
    gone: u64,
    /// The most that was there since then, in use or free, as far as it was asked.
    most: u64,
}

impl Default for Share {
    fn default() -> Share {
        Share::new()
    }
}

impl Share {
    /// Nothing went back.
    #[must_use]
    pub const fn new() -> Share {
        Share { since_ms: 0, gone: 0, most: 0 }
    }

    /// How much more may go back at once. `there` is what is in use, or free and not gone back;
    /// `gone` what has gone back so far.
    pub fn left(&mut self, there: usize, gone: u64) -> u64 {
        let Some(decay_ms @ 1..) = limit::decay_ms() else { return u64::MAX };
        let now_ms = clock::coarse_ms();
        if now_ms.saturating_sub(self.since_ms) >= decay_ms {
            *self = Share { since_ms: now_ms, gone, most: 0 };
        }
        self.most = self.most.max(there as u64);
        self.most.saturating_sub(gone - self.gone)
    }

    /// True if half of it has gone.
    pub(crate) fn is_half_gone(&mut self, there: usize, gone: u64) -> bool {
        self.left(there, gone) < self.most / 2
    }
}
