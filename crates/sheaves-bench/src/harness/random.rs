//! Random numbers, the same in every run.

/// A small random generator (xorshift64*): the order of contenders and the pattern of accesses
/// shall be random to the machine, and the same in every run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`, taken from 32 random bits without a division.
    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        scale((self.next() >> 32) as u32, bound)
    }

    pub(crate) fn shuffle<T>(&mut self, slice: &mut [T]) {
        for end in (1..slice.len()).rev() {
            slice.swap(end, self.below(end as u32 + 1) as usize);
        }
    }
}

/// Scales 32 random bits to a number below `bound`.
#[inline]
pub(crate) fn scale(bits: u32, bound: u32) -> u32 {
    ((u64::from(bits) * u64::from(bound)) >> 32) as u32
}
