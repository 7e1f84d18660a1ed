//! Objects that are zero in every row: allocated and freed, by caches if possible.
//!
//! Objects are zeroed when they are freed, outside every lock, so an allocation has nothing to
//! write. Untouched pages and discarded pages are zero anyway. Words that are already zero are only
//! read: this takes no cache lines from other CPUs, and allocates no memory for untouched pages.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use sheaves_sys::stack::Frame;

use crate::dynamic::{Error, Shape};
use crate::engine::rows::PackedWord;
use crate::memory::class::Class;
use crate::memory::{caches, state};
use crate::rows;
use crate::word::{BLOCK_BYTES, RowWord};

/// Allocates an object that is zero in every row; returns its offset.
#[inline]
pub(crate) fn alloc(shape: Shape) -> Result<usize, Error> {
    let offset = match Class::of(shape) {
        Some(class) => match caches::pop(class) {
            Some(offset) => offset,
            None => caches::alloc_slow(class)?,
        },
        None => caches::alloc_uncached(shape)?,
    };
    if observer().is_some() {
        note_alloc(offset, shape.size);
    }
    Ok(offset)
}

/// Frees an object, to the caches if they have room.
///
/// # Safety
/// The object is from [`alloc`] with this shape and not used any more in any row.
#[inline]
pub(crate) unsafe fn free(offset: usize, shape: Shape) {
    if let Some(observer) = observer() {
        (observer.free)(rows::shared() + offset);
    }
    // SAFETY: the caller owns the object.
    unsafe { zero(offset, shape.size) };
    match Class::of(shape) {
        Some(class) => {
            // SAFETY: the object is zero and of this class, and the caller gives it up.
            if !unsafe { caches::push(class, offset) } {
                caches::free_slow(class, offset);
            }
        }
        None => state::free(&mut [offset]),
    }
}

/// Zeroes an object in all rows where it may be anything else.
///
/// # Safety
/// The caller owns the object in every row. `offset` is a multiple of 4, and the object has `bytes`
/// rounded up to 4.
#[inline]
unsafe fn zero(offset: usize, bytes: usize) {
    for row in rows::written() {
        let address = rows::row(row) + offset;
        if (address | bytes).is_multiple_of(8) {
            // SAFETY: the same contract; the row is open.
            unsafe { zero_units::<u64>(address, bytes / 8) };
        } else {
            // SAFETY: as above.
            unsafe { zero_units::<u32>(address, bytes.div_ceil(4)) };
        }
    }
}

/// # Safety
/// The caller owns `count` units at `address`, which is aligned for them.
#[inline]
unsafe fn zero_units<U: Copy + Default + PartialEq>(address: usize, count: usize) {
    let start = core::ptr::with_exposed_provenance_mut::<U>(address);
    for index in 0..count {
        // SAFETY: inside the object.
        let unit = unsafe { start.add(index) };
        // SAFETY: the caller owns it; memory of rows is always initialised.
        if unsafe { unit.read() } != U::default() {
            // SAFETY: as above.
            unsafe { unit.write(U::default()) };
        }
    }
}

/// Functions that are called with the address of an object in no slot's row, which is the object's
/// own. They are called without a lock.
#[derive(Debug)]
pub struct Observer {
    /// An object was allocated, of `bytes` in each slot, by the function that the frame is of.
    pub alloc: extern "C" fn(address: usize, bytes: usize, frame: Frame),
    /// An object is about to be freed.
    pub free: fn(address: usize),
}

static OBSERVER: AtomicPtr<Observer> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the observer, which is told of all objects from now on, for ever.
pub fn observe(observer: &'static Observer) {
    // Release pairs with the Acquire in `observer`.
    OBSERVER.store(core::ptr::from_ref(observer).cast_mut(), Ordering::Release);
}

#[inline]
fn observer() -> Option<&'static Observer> {
    // Acquire pairs with the Release in `observe`.
    // SAFETY: null or a static.
    unsafe { OBSERVER.load(Ordering::Acquire).as_ref() }
}

crate::with_frame! {
    #[cold]
    [] fn note_alloc(offset: usize, bytes: usize) -> () = note_alloc_from;
}

extern "C" fn note_alloc_from(offset: usize, bytes: usize, frame: Frame) {
    if let Some(observer) = observer() {
        (observer.alloc)(rows::shared() + offset, bytes, frame);
    }
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
