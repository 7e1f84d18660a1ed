//! Pseudo-random numbers that are the same in every run.

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// True with probability 1 / `rate`.
    pub(crate) fn once_in(&mut self, rate: usize) -> bool {
        self.below(rate) == 0
    }

    /// From 1 to `max`, small numbers as often as large ones.
    pub(crate) fn log_uniform(&mut self, max: usize) -> usize {
        let bits = max.ilog2() as usize + 1;
        let limit = 1 << (1 + self.below(bits));
        1 + self.below(limit.min(max))
    }
}
