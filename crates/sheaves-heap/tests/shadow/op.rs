//! Operations on a heap, and generators of random ones.
//!
//! An [`Op`] names a block by a number modulo the number of live ones. So any sequence of
//! operations, and any part of one, is valid, and a failing sequence can shrink.

use proptest::prelude::*;
use sheaves_heap::classes::{CLASSES, MIDDLE_BYTES_MAX, SIZES, SMALL_BYTES_MAX};

/// Number of object caches beside the size classes, see `Sheaves::new`.
pub(crate) const CACHES: usize = 6;
/// The largest shift of an alignment: 1 GiB.
pub(crate) const ALIGN_SHIFT_MAX: u32 = 30;

const LARGE_BYTES_MAX: usize = 6 << 20;

/// One call, or a few related ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// `malloc`.
    Malloc { size: usize },
    /// `calloc`; the memory must read as zeros.
    Calloc { count: usize, size: usize },
    /// `aligned_alloc` at a multiple of 1 << shift.
    Aligned { shift: u32, size: usize },
    /// `alloc_layout`, to be freed by `dealloc_layout`.
    Layout { shift: u32, size: usize },
    /// `realloc` of a live block.
    Realloc { which: u32, size: usize },
    /// Frees a live block by the matching call.
    Free { which: u32 },
    /// Sends a live block to another thread, which frees it.
    Send { which: u32, to: u32 },
    /// Allocates one object of a cache.
    CacheAlloc { cache: usize },
    /// Allocates many objects at once.
    CacheAllocBulk { cache: usize, count: usize },
    /// Frees up to `count` live objects of a cache at once.
    CacheFreeBulk { cache: usize, count: usize },
    /// Returns a cache's free objects to its slabs.
    Shrink { cache: usize },
    /// Frees everything that the thread has.
    FreeAll,
    /// Returns free memory to the kernel.
    Trim,
}

/// A generator of random numbers: splitmix64 (Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number from 0 to `end` - 1.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() >> 16) as usize % end
    }

    fn within(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// The next operation.
    pub(crate) fn op(&mut self) -> Op {
        let which = self.next() as u32;
        let cache = self.below(CACHES);
        match self.below(100_000) {
            0..2 => Op::Trim,
            2..6 => Op::FreeAll,
            6..20 => Op::Shrink { cache },
            20..32_000 => Op::Malloc { size: self.size() },
            32_000..37_000 => self.calloc(),
            37_000..42_000 => Op::Aligned { shift: self.shift(), size: self.size() },
            42_000..52_000 => Op::Layout { shift: self.shift().min(20), size: self.size() },
            52_000..62_000 => Op::Realloc { which, size: self.size() },
            62_000..82_000 => Op::Free { which },
            82_000..88_000 => Op::Send { which, to: self.next() as u32 },
            88_000..98_000 => Op::CacheAlloc { cache },
            98_000..99_000 => Op::CacheAllocBulk { cache, count: self.below(400) },
            _ => Op::CacheFreeBulk { cache, count: self.below(400) },
        }
    }

    fn calloc(&mut self) -> Op {
        let bytes = self.size();
        let size = [1, 8, 24, 4096][self.below(4)];
        Op::Calloc { count: bytes / size, size }
    }

    /// Sizes of every kind: mostly small ones, often at the boundary of a class.
    fn size(&mut self) -> usize {
        match self.below(1000) {
            0..5 => 0,
            5..250 => boundary(self.below(CLASSES), self.below(3)),
            250..975 => {
                let shift = self.below(SMALL_BYTES_MAX.ilog2() as usize);
                self.within(1 << shift, 2 << shift)
            }
            975..997 => self.within(SMALL_BYTES_MAX, MIDDLE_BYTES_MAX),
            _ => self.within(MIDDLE_BYTES_MAX, LARGE_BYTES_MAX),
        }
    }

    fn shift(&mut self) -> u32 {
        let shift = match self.below(1000) {
            0..900 => self.within(4, 12),
            900..990 => self.within(13, 20),
            _ => self.within(21, ALIGN_SHIFT_MAX as usize),
        };
        shift as u32
    }
}

/// One byte below, at, or one byte above the size of a class.
fn boundary(class: usize, step: usize) -> usize {
    SIZES[class] as usize + step - 1
}

/// Mixes the bits of a number.
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// The same operations as a strategy that can shrink.
pub(crate) fn any_op() -> impl Strategy<Value = Op> {
    let size = prop_oneof![
        4 => 0..=600_usize,
        3 => (0..CLASSES, 0..3_usize).prop_map(|(class, step)| boundary(class, step)),
        1 => SMALL_BYTES_MAX..=MIDDLE_BYTES_MAX,
        1 => MIDDLE_BYTES_MAX..=LARGE_BYTES_MAX,
    ];
    let size = size.boxed();
    let (cache, count) = (0..CACHES, 0..300_usize);
    prop_oneof![
        6 => size.clone().prop_map(|size| Op::Malloc { size }),
        2 => size.clone().prop_map(|size| Op::Calloc { count: size, size: 1 }),
        2 => (4..=ALIGN_SHIFT_MAX, size.clone())
            .prop_map(|(shift, size)| Op::Aligned { shift, size }),
        2 => (0..=20_u32, size.clone()).prop_map(|(shift, size)| Op::Layout { shift, size }),
        4 => (any::<u32>(), size).prop_map(|(which, size)| Op::Realloc { which, size }),
        6 => any::<u32>().prop_map(|which| Op::Free { which }),
        2 => cache.clone().prop_map(|cache| Op::CacheAlloc { cache }),
        1 => (cache.clone(), count.clone())
            .prop_map(|(cache, count)| Op::CacheAllocBulk { cache, count }),
        1 => (cache.clone(), count)
            .prop_map(|(cache, count)| Op::CacheFreeBulk { cache, count }),
        1 => cache.prop_map(|cache| Op::Shrink { cache }),
        1 => Just(Op::Trim),
    ]
}
