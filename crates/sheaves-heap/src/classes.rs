//! Size classes: which cache serves which size.
//!
//! Multiples of 16 bytes up to 128, then eight classes per doubling up to 32 KiB: a step is at
//! most 12.5 % above 128 bytes. All sizes are multiples of 16, so a table with one entry per 16
//! bytes, 2 KiB in all, gives the class by one load.

use sheaves_percpu::Word;
use sheaves_slab::CacheId;

/// The largest size that a class serves, in bytes.
pub const SMALL_BYTES_MAX: usize = 32 << 10;
/// Every class size is a multiple of this, and every object aligned to it at the least.
pub const QUANTUM_BYTES: usize = 16;

/// Classes of 16, 32, ... 128 bytes.
const FINE: usize = 8;
/// Classes per doubling above.
const PER_DOUBLING: usize = 8;
/// Doublings from 128 bytes to [`SMALL_BYTES_MAX`].
const DOUBLINGS: usize = (SMALL_BYTES_MAX / 128).trailing_zeros() as usize;

/// Number of classes.
pub const CLASSES: usize = FINE + PER_DOUBLING * DOUBLINGS;

/// Size of each class, in bytes.
pub static SIZES: [u32; CLASSES] = SIZE_TABLE;

pub(crate) const SIZE_TABLE: [u32; CLASSES] = {
    let mut sizes = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        sizes[class] = if class < FINE {
            (class + 1) * QUANTUM_BYTES
        } else {
            let (doubling, step) = ((class - FINE) / PER_DOUBLING, (class - FINE) % PER_DOUBLING);
            (128 << doubling) / PER_DOUBLING * (PER_DOUBLING + 1 + step)
        } as u32;
        class += 1;
    }
    sizes
};

/// The word of allocations, as its offset, by size in quanta, rounded up.
#[doc(hidden)]
pub static WORDS: [u16; SMALL_BYTES_MAX / QUANTUM_BYTES + 1] = {
    let mut words = [0; SMALL_BYTES_MAX / QUANTUM_BYTES + 1];
    let mut quanta = 0;
    while quanta < words.len() {
        words[quanta] = CacheId::of_class(QUANTA_TABLE[quanta] as usize).allocs().offset() as u16;
        quanta += 1;
    }
    words
};

/// Class by size in quanta, rounded up.
static BY_QUANTA: [u8; SMALL_BYTES_MAX / QUANTUM_BYTES + 1] = QUANTA_TABLE;

const QUANTA_TABLE: [u8; SMALL_BYTES_MAX / QUANTUM_BYTES + 1] = {
    let mut table = [0; SMALL_BYTES_MAX / QUANTUM_BYTES + 1];
    let (mut quanta, mut class) = (0, 0);
    while quanta < table.len() {
        if quanta * QUANTUM_BYTES > SIZE_TABLE[class] as usize {
            class += 1;
        }
        table[quanta] = class as u8;
        quanta += 1;
    }
    table
};

/// The class for a size of at most [`SMALL_BYTES_MAX`]; size 0 gets the smallest.
///
/// # Panics
/// Above that.
#[inline(always)]
#[must_use]
pub fn of_size(size: usize) -> usize {
    assert!(size <= SMALL_BYTES_MAX);
    // SAFETY: just tested.
    unsafe { of_size_unchecked(size) }
}

/// The word of allocations for a size.
///
/// # Safety
/// `size` is at most [`SMALL_BYTES_MAX`].
#[inline(always)]
pub(crate) unsafe fn word_of_size_unchecked(size: usize) -> Word {
    debug_assert!(size <= SMALL_BYTES_MAX);
    let quanta = (size + (QUANTUM_BYTES - 1)) >> QUANTUM_BYTES.trailing_zeros();
    // SAFETY: the table covers every size up to the limit.
    Word::at_offset(usize::from(*unsafe { WORDS.get_unchecked(quanta) }))
}

/// [`of_size`] without a test.
///
/// # Safety
/// `size` is at most [`SMALL_BYTES_MAX`].
#[inline(always)]
unsafe fn of_size_unchecked(size: usize) -> usize {
    debug_assert!(size <= SMALL_BYTES_MAX);
    // SAFETY: the table covers every size up to the limit.
    // `div_ceil` would not know that the sum cannot overflow, and costs five instructions more.
    let quanta = (size + (QUANTUM_BYTES - 1)) >> QUANTUM_BYTES.trailing_zeros();
    // SAFETY: the table covers every size up to the limit.
    usize::from(*unsafe { BY_QUANTA.get_unchecked(quanta) })
}

/// The smallest class whose objects hold `size` bytes and lie at multiples of `align` (a power of
/// two), or `None`.
///
/// Objects are at multiples of the class size from the start of a slab, which is aligned to
/// 64 KiB: so the class size must be a multiple of the alignment.
#[inline]
#[must_use]
pub fn of_layout(size: usize, align: usize) -> Option<usize> {
    if size > SMALL_BYTES_MAX {
        return None;
    }
    if align <= QUANTUM_BYTES {
        return Some(of_size(size));
    }
    if align > SMALL_BYTES_MAX {
        return None;
    }
    let first = of_size(size.max(align));
    (first..CLASSES).find(|class| (SIZES[*class] as usize).is_multiple_of(align))
}

const _: () = {
    assert!(SIZE_TABLE[CLASSES - 1] as usize == SMALL_BYTES_MAX);
    assert!(CLASSES <= sheaves_slab::registry::CLASSES_MAX);
    let mut class = 1;
    while class < CLASSES {
        let (below, size) = (SIZE_TABLE[class - 1] as usize, SIZE_TABLE[class] as usize);
        assert!(size > below && size.is_multiple_of(QUANTUM_BYTES));
        // At most 12.5 % above 128 bytes.
        assert!(size <= 128 || (size - below) * 8 <= below);
        // The table sends every size up to here to this class, and no larger one.
        assert!(QUANTA_TABLE[size / QUANTUM_BYTES] as usize == class);
        assert!(QUANTA_TABLE[below / QUANTUM_BYTES + 1] as usize == class);
        class += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_get_aligned_classes() {
        for shift in 0..=15 {
            for size in (0..=SMALL_BYTES_MAX).step_by(7) {
                let class = of_layout(size, 1 << shift).unwrap();
                let bytes = SIZES[class] as usize;
                assert!(bytes >= size && bytes.is_multiple_of(1 << shift));
            }
        }
        assert!(of_layout(1, 1 << 16).is_none());
        assert!(of_layout(SMALL_BYTES_MAX + 1, 8).is_none());
    }
}
