//! The allocator of this process, its lock, and the way in and out past the caches.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_sys::lock::Lock;

use crate::area::{self, BLOCK_BYTES, Region, rows};
use crate::dynamic::{ALIGN_MAX, Allocator, Config, OBJECT_BYTES_MAX, Offset};
use crate::engine::rows::Near;
use crate::engine::{self, Mode};
use crate::memory::Error;
use crate::memory::backing::{Rows, UNIT_BYTES};
use crate::memory::class::{CLASSES, Class};
use crate::memory::clear::{Reach, clear};
use crate::memory::pool::Pool;
use crate::memory::{caches, live};
use crate::slots;

/// A valid size and alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(super) size: usize,
    pub(super) align: usize,
}

impl Shape {
    /// A word.
    pub(crate) const WORD: Shape = Shape { size: 8, align: 8 };

    #[inline]
    pub(crate) const fn new(size: usize, align: usize) -> Result<Shape, Error> {
        if size == 0 {
            return Err(Error::ZeroSize);
        }
        if size > OBJECT_BYTES_MAX {
            return Err(Error::TooLarge);
        }
        if !align.is_power_of_two() || align > ALIGN_MAX {
            return Err(Error::BadAlignment);
        }
        Ok(Shape { size, align })
    }

    #[inline]
    pub(crate) const fn at_least(self, size: usize) -> Shape {
        Shape { size: if self.size < size { size } else { self.size }, align: self.align }
    }

    #[inline]
    pub(crate) const fn size(self) -> usize {
        self.size
    }

    #[inline]
    pub(crate) const fn align(self) -> usize {
        self.align
    }
}

/// What the memory lock guards.
pub(crate) struct State {
    allocator: Option<Allocator<Rows>>,
    pub(super) sheaves: Pool,
    /// Where the allocator's offsets begin. What comes back from below is lost, see
    /// [`State::recover`].
    base: usize,
}

/// The memory lock. Taken before the slots lock.
pub(crate) static MEMORY: Lock<State> =
    Lock::new(State { allocator: None, sheaves: Pool::new(), base: 0 });

impl State {
    /// Makes the allocator, once: opens the shared row and prepares the words of the caches.
    fn start(&mut self) -> Result<&mut Allocator<Rows>, Error> {
        if self.allocator.is_none() {
            self.allocator = Some(make(self.base)?);
            slots::prepare(Region::OWN, CLASSES);
            caches::open();
        }
        self.allocator.as_mut().ok_or(Error::NoMemory)
    }

    /// An object from the allocator; its offset.
    pub(super) fn take(&mut self, shape: Shape) -> Result<usize, Error> {
        let allocator = self.start()?;
        let offset = allocator.alloc(shape.size, shape.align)?;
        if allocator.balance_wanted() {
            allocator.balance();
        }
        Ok(self.base + offset.bytes())
    }

    /// Objects of one shape from the allocator, at least one; fills `offsets` from its start on.
    pub(super) fn take_many(
        &mut self,
        shape: Shape,
        offsets: &mut [Offset],
    ) -> Result<usize, Error> {
        let allocator = self.start()?;
        let count = allocator.alloc_many(shape.size, shape.align, offsets)?;
        if allocator.balance_wanted() {
            allocator.balance();
        }
        for offset in &mut offsets[..count] {
            *offset = Offset::new(self.base + offset.bytes());
        }
        Ok(count)
    }

    /// Gives objects back to the allocator. They are zero everywhere.
    pub(super) fn give(&mut self, offsets: &[usize]) {
        const MANY: usize = 64;
        let Some(allocator) = &mut self.allocator else { return };
        for offsets in offsets.chunks(MANY) {
            let mut list = [Offset::new(0); MANY];
            let mut count = 0;
            for offset in offsets.iter().filter_map(|offset| offset.checked_sub(self.base)) {
                list[count] = Offset::new(offset);
                count += 1;
            }
            let list = &mut list[..count];
            if let Err((offset, error)) = allocator.free_many(list) {
                let (text, offset) = ("per-CPU memory is corrupt: the object at", offset.bytes());
                sheaves_sys::report::die(format_args!("{text} offset {offset:#x}: {error}"));
            }
        }
        if allocator.balance_wanted() {
            allocator.balance();
        }
    }

    /// In a child of a fork, where a thread that is not there held the lock. Nothing says what of
    /// the allocator is half changed, so another one begins behind all that it may have given out;
    /// what comes back from before is lost, and so are the sheaves that no slot had.
    pub(crate) fn recover(&mut self) {
        rows::recover_once();
        self.allocator = None;
        self.base = rows::committed_bytes().next_multiple_of(UNIT_BYTES);
        self.sheaves.recover();
    }

    pub(super) fn allocator(&self) -> Option<&Allocator<Rows>> {
        self.allocator.as_ref()
    }
}

/// The allocator of the rows from an offset on. Under the memory lock.
fn make(base: usize) -> Result<Allocator<Rows>, Error> {
    if engine::mode() == Mode::NotStarted {
        engine::start();
    }
    let config = Config {
        unit_bytes: UNIT_BYTES,
        chunks_max: rows::row_bytes().saturating_sub(base) / UNIT_BYTES,
        head_bytes: if base == 0 { BLOCK_BYTES } else { 0 },
    };
    // A limit on the address space can leave rows without room for a chunk.
    let is_open = config.chunks_max > 0 && {
        let _slots = slots::SLOTS.lock();
        rows::open(rows::shared())
    };
    if !is_open {
        return Err(Error::NoMemory);
    }
    live::place();
    Allocator::new(Rows { base }, config).map_err(|_| Error::NoMemory)
}

/// An object, zero in every row; its offset. From the caches where they have one.
#[inline]
pub(crate) fn take(shape: Shape) -> Result<usize, Error> {
    match Class::of(shape) {
        Some(class) => match caches::pop(class) {
            Some(offset) => Ok(offset),
            None => caches::take_slow(class),
        },
        None => take_uncached(shape),
    }
}

/// An object from the allocator. When the rows are exhausted, what rests in the caches is
/// given back first.
#[cold]
pub(crate) fn take_uncached(shape: Shape) -> Result<usize, Error> {
    let first = MEMORY.lock().take(shape);
    if !matches!(first, Err(Error::Exhausted | Error::NoMemory)) || !caches::drain() {
        return first;
    }
    MEMORY.lock().take(shape)
}

/// Gives an object back, to the caches where there is room.
///
/// # Safety
/// The object came from [`take`] with this shape, and nobody uses it any more in any row; it was
/// written to in rows of this reach only.
#[inline]
pub(crate) unsafe fn give(offset: usize, shape: Shape, reach: Reach) {
    // SAFETY: the object is the caller's alone.
    unsafe { clear(offset, shape.size, reach) };
    match Class::of(shape) {
        Some(class) => {
            // SAFETY: the object is zero, of this class, and ours to give.
            if !unsafe { caches::push(class, offset) } {
                caches::give_slow(class, offset);
            }
        }
        None => give_uncached(offset),
    }
}

#[cold]
fn give_uncached(offset: usize) {
    MEMORY.lock().give(&[offset]);
}

/// The offset of an object that is made at first use, kept in eight bytes of its owner.
///
/// | value | meaning | transitions |
/// |---|---|---|
/// | 0 | not made yet | -> place, offset or 1, by the first thread that comes |
/// | 1 | there was no memory: the owner does without | never again |
/// | a [`Near`] | the offset, and how to get there by one load | never again |
/// | other | the offset, where the engine has no such places | never again |
#[derive(Debug)]
pub(crate) struct Lazy(AtomicU64);

impl Lazy {
    pub(crate) const fn new() -> Lazy {
        Lazy(AtomicU64::new(0))
    }

    /// The offset, where the object is made.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<usize> {
        // Acquire pairs with the Release in `make`: there is memory at the offset.
        let bits = self.0.load(Ordering::Acquire);
        // SAFETY: what has the mark here is a place; offsets have not.
        let offset = unsafe { Near::from_bits(bits) }.map_or(bits as usize, Near::offset);
        (offset >= BLOCK_BYTES).then_some(offset)
    }

    /// The same as a place, where the engine has those.
    #[inline(always)]
    pub(crate) fn near(&self) -> Option<Near> {
        // Acquire: as in `get`.
        let bits = self.0.load(Ordering::Acquire);
        // SAFETY: as in `get`.
        unsafe { Near::from_bits(bits) }
    }

    /// The offset; makes the object where that has not happened. `None` where there is no memory.
    #[cold]
    pub(crate) fn make(&self, shape: Shape) -> Option<usize> {
        // Relaxed: only says whether to try; `get` orders.
        if self.0.load(Ordering::Relaxed) == 0 {
            let made = take(shape);
            let bits =
                made.map_or(1, |offset| Near::new(offset).map_or(offset as u64, Near::to_bits));
            // Release pairs with the Acquire in `get`. Relaxed on failure: `get` reads again.
            let won = self.0.compare_exchange(0, bits, Ordering::Release, Ordering::Relaxed);
            if let (Err(_), Ok(offset)) = (won, made) {
                // SAFETY: just taken, and nobody else was told of it.
                unsafe { give(offset, shape, Reach::Used) };
            }
        }
        self.get()
    }

    /// Gives the object back.
    ///
    /// # Safety
    /// `shape` is that of [`Lazy::make`], and nobody uses the object any more.
    pub(crate) unsafe fn end(&mut self, shape: Shape) {
        if let Some(offset) = self.get() {
            // SAFETY: the same contract.
            unsafe { give(offset, shape, Reach::Used) };
        }
        *self.0.get_mut() = 0;
    }
}

/// True when an object of this shape can lie at an offset.
pub(super) fn is_inside(offset: usize, shape: Shape) -> bool {
    let end = offset + shape.size;
    let is_started = area::slot_count() > 0 && caches::is_open();
    is_started && offset >= BLOCK_BYTES && end <= rows::committed_bytes()
}

/// Gives everything back to the system that no object lies on.
pub(super) fn trim() {
    if let Some(allocator) = &mut MEMORY.lock().allocator {
        allocator.trim();
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// Objects of three shapes: a class, a large one, and one in between.
    fn take_some() -> Vec<(usize, Shape)> {
        let shapes = [(8, 8), (24, 8), (20_000, 64)].map(|(size, align)| Shape { size, align });
        let take = |number: usize| {
            let shape = shapes[number % 3];
            (take_uncached(shape).unwrap(), shape)
        };
        (0..60).map(take).collect()
    }

    /// In the first row, which is always open.
    fn word(offset: usize) -> &'static core::sync::atomic::AtomicUsize {
        area::word_at(rows::row(0) + offset)
    }

    #[test]
    fn another_allocator_begins_behind_what_was_given_out() {
        let old = take_some();
        for (offset, _) in &old {
            word(*offset).store(*offset, Ordering::Relaxed);
        }
        MEMORY.lock().recover();
        let base = MEMORY.lock().base;
        assert!(base.is_multiple_of(UNIT_BYTES) && old.iter().all(|(offset, _)| *offset < base));
        let new = take_some();
        for (offset, _) in &new {
            assert!(*offset >= base);
            assert_eq!(word(*offset).load(Ordering::Relaxed), 0);
            word(*offset).store(*offset, Ordering::Relaxed);
        }
        for (offset, shape) in old.into_iter().chain(new) {
            assert_eq!(word(offset).load(Ordering::Relaxed), offset);
            // SAFETY: taken above, and used by nobody else.
            unsafe { give(offset, shape, Reach::Open) };
        }
        caches::drain();
        trim();
        assert!(take_some().iter().all(|(offset, _)| *offset >= base));
    }
}
