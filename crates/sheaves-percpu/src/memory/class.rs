//! Size classes of the caches.
//!
//! Up to 64 bytes there is one class for each multiple of 4, so at most 3 bytes are wasted. Above,
//! there is one for each multiple of 16 up to 128, and of 32 up to 256. A class's alignment is the
//! largest power of two that divides its size, at most 64. A shape with a larger alignment has no
//! class.

use crate::dynamic::Shape;
use crate::word::{Region, Word};

const BYTES_MAX: usize = 256;
pub(super) const CLASSES: usize = 24;
const CLASS_ALIGN_MAX: usize = 64;
/// Number of objects that move from the allocator to a slot at a time, for the smallest classes.
pub(super) const BATCH_MAX: usize = 32;
/// Bytes of a batch, if these are [`BATCH_MIN`] to [`BATCH_MAX`] objects.
const BATCH_BYTES: usize = 2048;
const BATCH_MIN: usize = 8;

/// A size class, below [`CLASSES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class(u8);

impl Class {
    /// The class of a shape; constant for a constant shape.
    #[inline(always)]
    pub(crate) const fn of(shape: Shape) -> Option<Class> {
        let index = match shape.size {
            1..=64 => (shape.size - 1) / 4,
            65..=128 => 16 + (shape.size - 65) / 16,
            129..=BYTES_MAX => 20 + (shape.size - 129) / 32,
            _ => return None,
        };
        let class = Class::at(index);
        if shape.align <= class.align() { Some(class) } else { None }
    }

    /// Class number `index`, below [`CLASSES`].
    pub(super) const fn at(index: usize) -> Class {
        assert!(index < CLASSES);
        Class(index as u8)
    }

    pub(super) const fn size(self) -> usize {
        let index = self.0 as usize;
        match index {
            ..16 => 4 * (index + 1),
            16..20 => 64 + 16 * (index - 15),
            _ => 128 + 32 * (index - 19),
        }
    }

    #[inline]
    pub(super) const fn align(self) -> usize {
        let natural = 1 << self.size().trailing_zeros();
        if natural < CLASS_ALIGN_MAX { natural } else { CLASS_ALIGN_MAX }
    }

    pub(super) const fn batch(self) -> usize {
        match BATCH_BYTES / self.size() {
            ..BATCH_MIN => BATCH_MIN,
            BATCH_MAX.. => BATCH_MAX,
            count => count,
        }
    }

    #[inline(always)]
    pub(super) const fn word(self) -> Word {
        Region::OWN.word(self.0 as usize)
    }

    pub(super) const fn shape(self) -> Shape {
        Shape { size: self.size(), align: self.align() }
    }
}

const _: () = {
    assert!(CLASSES <= Region::OWN.words());
    assert!(Class::at(CLASSES - 1).size() == BYTES_MAX);
    let mut index = 0;
    while index < CLASSES {
        let class = Class::at(index);
        assert!(matches!(Class::of(class.shape()), Some(found) if found.0 == class.0));
        index += 1;
    }
};

#[cfg(test)]
#[path = "../../tests/unit/memory_class.rs"]
mod tests;
