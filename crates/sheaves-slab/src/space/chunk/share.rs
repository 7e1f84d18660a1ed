//! How much goes back at once where there is no keeper, because too much is free.
//!
//! A program that fills and empties its memory again and again would have a page fault for each page
//! each time. So in each `SHEAVES_DECAY_MS` as much goes back as there was at most: one that frees
//! all it has, once, keeps nothing, for its last free may be its last call. What is freed after that
//! stays for the rest of the time.

use sheaves_sys::clock;

use super::state::{CHUNKS, Chunks};
use crate::space::limit;

/// What went back since a time, in granules.
#[derive(Debug)]
pub(super) struct Share {
    since_ms: u64,
    /// [`Chunks::discarded`] then.
    discarded: u64,
    /// The most that was in use or dirty since then, as far as it was asked.
    most: u64,
}

impl Share {
    pub(super) const fn new() -> Share {
        Share { since_ms: 0, discarded: 0, most: 0 }
    }
}

/// True if half of what may go back at once has gone.
pub(crate) fn has_gone_back() -> bool {
    let mut chunks = CHUNKS.lock();
    !chunks.may_go_back() || chunks.gone() > chunks.share.most / 2
}

impl Chunks {
    /// True if more may go back at once.
    pub(super) fn may_go_back(&mut self) -> bool {
        let Some(decay_ms @ 1..) = limit::decay_ms() else { return true };
        let (now_ms, discarded) = (clock::coarse_ms(), self.discarded);
        if now_ms.saturating_sub(self.share.since_ms) >= decay_ms {
            self.share = Share { since_ms: now_ms, discarded, most: 0 };
        }
        self.share.most = self.share.most.max((self.used + self.dirty) as u64);
        self.gone() < self.share.most
    }

    fn gone(&self) -> u64 {
        self.discarded - self.share.discarded
    }
}
