//! Objects that are zero in every row: allocated and freed, by caches if possible.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::dynamic::Shape;
use crate::engine::rows::PackedWord;
use crate::engine::{Access, Mode, mode};
use crate::memory::Error;
use crate::memory::caches::{self, alloc_uncached};
use crate::memory::class::Class;
use crate::memory::observer;
use crate::memory::state::{MEMORY, is_open};
use crate::memory::zero::zero;
use crate::rows;
use crate::word::{BLOCK_BYTES, RowWord};

/// Allocates an object that is zero in every row; returns its offset.
#[inline]
pub(crate) fn alloc(shape: Shape) -> Result<usize, Error> {
    let offset = match Class::of(shape) {
        Some(class) => match caches::pop(class) {
            Some(offset) => offset,
            None => alloc_slow(class)?,
        },
        None => alloc_without_class(shape)?,
    };
    observer::allocated(offset, shape.size());
    Ok(offset)
}

#[cold]
#[inline(never)]
fn alloc_slow(class: Class) -> Result<usize, Error> {
    let _started = Access::get();
    caches::alloc_slow(class)
}

#[cold]
fn alloc_without_class(shape: Shape) -> Result<usize, Error> {
    let _started = Access::get();
    alloc_uncached(shape)
}

/// Frees an object, to the caches if they have room.
///
/// # Safety
/// The object is from [`alloc`] with this shape and not used any more in any row.
#[inline]
pub(crate) unsafe fn free(offset: usize, shape: Shape) {
    observer::will_free(offset);
    // SAFETY: the caller owns the object.
    unsafe { zero(offset, shape.size()) };
    match Class::of(shape) {
        Some(class) => {
            // SAFETY: the object is zero, of this class, and owned by the caller, which gives it
            // up.
            if !unsafe { caches::push(class, offset) } {
                caches::free_slow(class, offset);
            }
        }
        None => free_uncached(offset),
    }
}

#[cold]
fn free_uncached(offset: usize) {
    MEMORY.lock().free(&mut [offset]);
}

/// A word in every row, allocated at first use. Its owner stores this, which is eight bytes.
///
/// | value | meaning | transitions |
/// |---|---|---|
/// | 0 | not allocated yet | -> packed, offset or 1, by the first thread |
/// | 1 | memory was out: the owner works without the word | final |
/// | a [`PackedWord`] | the word, in a form that one load resolves | final |
/// | other | the word's offset, in engines without [`PackedWord`] | final |
#[derive(Debug)]
pub(crate) struct LazyWord(AtomicU64);

impl LazyWord {
    pub(crate) const fn new() -> LazyWord {
        LazyWord(AtomicU64::new(0))
    }

    /// The word, if it is allocated. The owner changes it by transactions and atomics only, and
    /// does not use a copy after [`LazyWord::free`].
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<RowWord> {
        // Acquire pairs with the Release in `make`: there is memory at the offset.
        let bits = self.0.load(Ordering::Acquire);
        // SAFETY: bits with the flag are those of a packed word; offsets do not have it.
        let offset = unsafe { PackedWord::from_bits(bits) }.map_or(bits as usize, |w| w.offset());
        // SAFETY: allocated by `make` with the shape of a word, for the owner alone.
        (offset >= BLOCK_BYTES).then(|| unsafe { RowWord::new(offset) })
    }

    /// [`LazyWord::get`] as a [`PackedWord`], where the engine has those.
    #[inline(always)]
    pub(crate) fn packed(&self) -> Option<PackedWord> {
        // Acquire: as in `get`.
        let bits = self.0.load(Ordering::Acquire);
        // SAFETY: as in `get`.
        unsafe { PackedWord::from_bits(bits) }
    }

    /// The word; allocates it if it is not allocated yet. `None` when memory is out.
    #[cold]
    pub(crate) fn make(&self) -> Option<RowWord> {
        // Relaxed: only decides whether to try; `get` orders.
        if self.0.load(Ordering::Relaxed) == 0 {
            let made = alloc(Shape::WORD);
            let bits = made.map_or(1, |offset| {
                // SAFETY: just allocated, with the shape of a word.
                let packed = PackedWord::new(unsafe { RowWord::new(offset) });
                packed.map_or(offset as u64, PackedWord::to_bits)
            });
            // Release pairs with the Acquire in `get`. Relaxed on failure: `get` reads again.
            let won = self.0.compare_exchange(0, bits, Ordering::Release, Ordering::Relaxed);
            if let (Err(_), Ok(offset)) = (won, made) {
                // SAFETY: just allocated, and not published.
                unsafe { free(offset, Shape::WORD) };
            }
        }
        self.get()
    }

    /// Frees the word.
    ///
    /// # Safety
    /// The word is not used any more.
    pub(crate) unsafe fn free(&mut self) {
        if let Some(word) = self.get() {
            // SAFETY: the same contract.
            unsafe { free(word.offset(), Shape::WORD) };
        }
        *self.0.get_mut() = 0;
    }
}

/// True when an object of this shape can be at an offset.
pub(super) fn is_inside(offset: usize, shape: Shape) -> bool {
    let end = offset + shape.size();
    let is_started = mode() != Mode::NotStarted && is_open();
    is_started && offset >= BLOCK_BYTES && end <= rows::committed_bytes()
}
