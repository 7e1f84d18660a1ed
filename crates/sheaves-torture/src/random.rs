//! Numbers that differ from run to run, cheap enough to be drawn in every section.

use std::time::{SystemTime, UNIX_EPOCH};

/// The xorshift generator of Marsaglia, "Xorshift RNGs" (2003), with shifts 13, 7 and 17.
pub(crate) struct Random(u64);

impl Random {
    /// A generator with a seed that differs for each call and each run.
    pub(crate) fn new() -> Random {
        let place = 0_u8;
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let seed = (time as u64).rotate_left(32) ^ core::ptr::from_ref(&place).addr() as u64;
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    /// True in one of `calls` calls on average.
    pub(crate) fn one_in(&mut self, calls: u64) -> bool {
        self.below(calls) == 0
    }
}
