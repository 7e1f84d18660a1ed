//! Tests of the hash map, repeated in every configuration of the engine.

#[path = "../../../sheaves-percpu/tests/transactions/configurations.rs"]
mod engines;
#[path = "../../../sheaves-percpu/tests/transactions/seccomp.rs"]
mod seccomp;

mod child;
mod children;
mod clearing;
mod conditional;
mod drops;
mod iteration;
mod late;
mod sequential;
#[path = "../../src/map/tables/spread.rs"]
mod spread;
mod storm;
mod surface;
mod unwinding;
mod words;

use core::hash::{BuildHasher, Hasher};

#[test]
fn in_every_configuration() {
    engines::run_all(4, false);
}

/// How much a test does: `much`, less in a process that should do less work, least in Miri, where
/// everything takes a thousand times as long.
fn amount(much: usize, less: usize, least: usize) -> usize {
    if cfg!(miri) {
        least
    } else if engines::is_small() {
        less
    } else {
        much
    }
}

/// A small random generator (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((self.next() >> 32) * bound) >> 32
    }
}

/// The lowest bits of a number are those that select the chain: a test chooses that of a key.
#[derive(Default)]
pub(crate) struct Itself(u64);

/// The number of these bits, for tables of up to 16 buckets. In all tables, 0 has the first chain.
const CHOSEN: u64 = 4;

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        let is_it = |hash: &u64| (spread::spread(*hash) ^ self.0).is_multiple_of(1 << CHOSEN);
        (self.0 << 16..).find(is_it).expect("one in 16 is")
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!();
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

/// Maps numbers to `1 << BITS` hashes: with few bits a bad hash, with 64 a good one.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spread<const BITS: u32>(u64);

impl<const BITS: u32> Hasher for Spread<BITS> {
    fn finish(&self) -> u64 {
        if BITS == 0 {
            return 0;
        }
        self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(BITS / 2) >> (64 - BITS)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}

impl<const BITS: u32> BuildHasher for Spread<BITS> {
    type Hasher = Spread<BITS>;
    fn build_hasher(&self) -> Spread<BITS> {
        Spread(0)
    }
}
