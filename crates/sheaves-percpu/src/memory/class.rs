//! Size classes of the caches.
//!
//! Up to 64 bytes there is one class for each multiple of 4, so at most 3 bytes are wasted. Above,
//! there is one for each multiple of 16 up to 128, and of 32 up to 256. A class's alignment is the
//! largest power of two that divides its size, at most 64. A shape with a larger alignment has no
//! class.

use crate::dynamic::Shape;
use crate::word::{Region, Word};

const EXACT_BYTES_MAX: usize = 64;
const EXACT_CLASSES: usize = EXACT_BYTES_MAX / 4;
const MIDDLE_BYTES_MAX: usize = 128;
const MIDDLE_CLASSES: usize = (MIDDLE_BYTES_MAX - EXACT_BYTES_MAX) / 16;
/// The largest object with a class.
const BYTES_MAX: usize = 256;
/// Number of classes.
pub(super) const CLASSES: usize =
    EXACT_CLASSES + MIDDLE_CLASSES + (BYTES_MAX - MIDDLE_BYTES_MAX) / 32;
/// The largest alignment of a class.
const CLASS_ALIGN_MAX: usize = 64;
/// Number of objects that move from the allocator to a slot at a time, for the smallest classes.
pub(super) const BATCH_MAX: usize = 32;
/// Bytes of a batch, above [`BATCH_MIN`].
const BATCH_BYTES: usize = 2048;
const BATCH_MIN: usize = 8;

/// A size class, below [`CLASSES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class(u8);

impl Class {
    /// The class of a shape; constant for a constant shape.
    #[inline(always)]
    pub(crate) const fn of(shape: Shape) -> Option<Class> {
        let size = shape.size();
        let index = if size <= EXACT_BYTES_MAX {
            size.div_ceil(4) - 1
        } else if size <= MIDDLE_BYTES_MAX {
            EXACT_CLASSES + (size - EXACT_BYTES_MAX).div_ceil(16) - 1
        } else if size <= BYTES_MAX {
            EXACT_CLASSES + MIDDLE_CLASSES + (size - MIDDLE_BYTES_MAX).div_ceil(32) - 1
        } else {
            return None;
        };
        let class = Class(index as u8);
        if shape.align() <= class.align() { Some(class) } else { None }
    }

    /// Class number `index`, below [`CLASSES`].
    pub(super) const fn at(index: usize) -> Class {
        assert!(index < CLASSES);
        Class(index as u8)
    }

    /// The size of its objects, in bytes.
    pub(super) const fn size(self) -> usize {
        let index = self.0 as usize;
        if index < EXACT_CLASSES {
            (index + 1) * 4
        } else if index < EXACT_CLASSES + MIDDLE_CLASSES {
            EXACT_BYTES_MAX + (index - EXACT_CLASSES + 1) * 16
        } else {
            MIDDLE_BYTES_MAX + (index - EXACT_CLASSES - MIDDLE_CLASSES + 1) * 32
        }
    }

    /// The alignment of its objects.
    #[inline]
    pub(super) const fn align(self) -> usize {
        let natural = 1 << self.size().trailing_zeros();
        if natural < CLASS_ALIGN_MAX { natural } else { CLASS_ALIGN_MAX }
    }

    /// Number of objects that move from the allocator to a slot at a time.
    pub(super) const fn batch(self) -> usize {
        let count = BATCH_BYTES / self.size();
        if count > BATCH_MAX {
            BATCH_MAX
        } else if count < BATCH_MIN {
            BATCH_MIN
        } else {
            count
        }
    }

    /// The word that holds the cursor of the class's sheaf.
    #[inline(always)]
    pub(super) const fn word(self) -> Word {
        Region::OWN.word(self.0 as usize)
    }

    /// The shape that a class requests from the allocator.
    pub(super) const fn shape(self) -> Shape {
        Shape::of_class(self.size(), self.align())
    }
}

const _: () = {
    assert!(CLASSES <= Region::OWN.words());
    let mut index = 0;
    while index < CLASSES {
        let class = Class::at(index);
        let shape = class.shape();
        assert!(matches!(Class::of(shape), Some(found) if found.0 == class.0));
        assert!(class.word().offset() == Region::OWN.word(index).offset());
        index += 1;
    }
    assert!(Class::at(CLASSES - 1).size() == BYTES_MAX);
};

#[cfg(test)]
#[path = "../../tests/unit/memory_class.rs"]
mod tests;
