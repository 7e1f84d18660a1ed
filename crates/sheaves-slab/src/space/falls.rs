//! Whether memory of which there is too much goes back at once, where there is no keeper.
//!
//! A program that frees all it has, once, keeps nothing: its last free may be its last call. But
//! one that fills and empties its memory again and again would have a page fault for each page each
//! time. So when what is in use has fallen to half and grown again, to twice what it was at most,
//! what is free stays until `SHEAVES_DECAY_MS` after that fall.

use sheaves_sys::clock;

use crate::space::limit;

/// The last fall of what is in use, in granules or in bytes, as far as it was asked.
#[derive(Debug)]
pub struct Falls {
    ms: u64,
    /// The most before it, and how much it had come down to.
    from: usize,
    to: usize,
    /// The most since then.
    peak: usize,
}

impl Falls {
    /// None yet.
    pub const NONE: Falls = Falls { ms: 0, from: 0, to: 0, peak: 0 };

    /// True if what is too much goes back now, with that much in use.
    #[must_use]
    pub fn may_go_back(&mut self, in_use: usize) -> bool {
        match limit::decay_ms() {
            Some(decay_ms @ 1..) => self.may_at(clock::coarse_ms(), decay_ms, in_use),
            _ => true,
        }
    }

    fn may_at(&mut self, now_ms: u64, decay_ms: u64, in_use: usize) -> bool {
        self.peak = self.peak.max(in_use);
        let is_again = self.peak > 2 * self.to && self.peak <= 2 * self.from;
        if is_again && now_ms.saturating_sub(self.ms) < decay_ms {
            return false;
        }
        if in_use <= self.peak / 2 {
            // While it falls on, it has come from where it was at first.
            let from = if self.peak == self.to { self.from } else { self.peak };
            *self = Falls { ms: now_ms, from, to: in_use, peak: in_use };
        }
        true
    }
}

#[cfg(test)]
#[path = "../../tests/unit/falls.rs"]
mod tests;
