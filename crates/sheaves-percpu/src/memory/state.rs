//! The allocator of this process, its lock, and the paths that bypass the caches.

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
    /// The shape of a word.
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

/// The data under the memory lock.
pub(crate) struct State {
    allocator: Option<Allocator<Rows>>,
    pub(super) sheaves: Pool,
    /// Start of the allocator's offsets. Objects below it are not reused, see [`State::recover`].
    base: usize,
}

/// The memory lock. Taken before the slots lock.
pub(crate) static MEMORY: Lock<State> =
    Lock::new(State { allocator: None, sheaves: Pool::new(), base: 0 });

impl State {
    /// Creates the allocator, once: opens the shared row and prepares the words of the caches.
    fn start(&mut self) -> Result<&mut Allocator<Rows>, Error> {
        if self.allocator.is_none() {
            self.allocator = Some(make(self.base)?);
            slots::prepare(Region::OWN, CLASSES);
            caches::open();
        }
        self.allocator.as_mut().ok_or(Error::NoMemory)
    }

    /// Allocates an object from the allocator; returns its offset.
    pub(super) fn take(&mut self, shape: Shape) -> Result<usize, Error> {
        let allocator = self.start()?;
        let offset = allocator.alloc(shape.size, shape.align)?;
        if allocator.balance_wanted() {
            allocator.balance();
        }
        Ok(self.base + offset.bytes())
    }

    /// Allocates at least one object of a shape from the allocator; fills `offsets` from its start.
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

    /// Returns objects, which are zero in every row, to the allocator.
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

    /// For a fork's child, when a thread that the child lacks held the lock. The allocator may be
    /// half changed, so a new one starts after everything that the old one may have handed out.
    /// Objects from before are lost when they are freed, and so are the free sheaves of the pool.
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

/// Creates the allocator of the rows from offset `base` on. Under the memory lock.
fn make(base: usize) -> Result<Allocator<Rows>, Error> {
    if engine::mode() == Mode::NotStarted {
        engine::start();
    }
    let config = Config {
        unit_bytes: UNIT_BYTES,
        chunks_max: rows::row_bytes().saturating_sub(base) / UNIT_BYTES,
        head_bytes: if base == 0 { BLOCK_BYTES } else { 0 },
    };
    // A limit on the address space can leave the rows without room for a chunk.
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

/// Allocates an object that is zero in every row, from the caches if possible; returns its offset.
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

/// Allocates an object from the allocator. When the rows are exhausted, drains the caches and tries
/// again.
#[cold]
pub(crate) fn take_uncached(shape: Shape) -> Result<usize, Error> {
    let first = MEMORY.lock().take(shape);
    if !matches!(first, Err(Error::Exhausted | Error::NoMemory)) || !caches::drain() {
        return first;
    }
    MEMORY.lock().take(shape)
}

/// Frees an object, to the caches if they have room.
///
/// # Safety
/// The object is from [`take`] with this shape and not used any more in any row. It was written
/// only in rows of this reach.
#[inline]
pub(crate) unsafe fn give(offset: usize, shape: Shape, reach: Reach) {
    // SAFETY: the caller owns the object.
    unsafe { clear(offset, shape.size, reach) };
    match Class::of(shape) {
        Some(class) => {
            // SAFETY: the object is zero, of this class, and owned by the caller, which gives it
            // up.
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

/// The offset of an object that is allocated at first use, in eight bytes of its owner.
///
/// | value | meaning | transitions |
/// |---|---|---|
/// | 0 | not allocated yet | -> `Near`, offset or 1, by the first thread |
/// | 1 | memory was out: the owner works without the object | final |
/// | a [`Near`] | the offset, in a form that one load resolves | final |
/// | other | the offset, in engines without [`Near`] | final |
#[derive(Debug)]
pub(crate) struct Lazy(AtomicU64);

impl Lazy {
    pub(crate) const fn new() -> Lazy {
        Lazy(AtomicU64::new(0))
    }

    /// The offset, if the object is allocated.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<usize> {
        // Acquire pairs with the Release in `make`: there is memory at the offset.
        let bits = self.0.load(Ordering::Acquire);
        // SAFETY: bits with the mark are those of a `Near`; offsets do not have it.
        let offset = unsafe { Near::from_bits(bits) }.map_or(bits as usize, Near::offset);
        (offset >= BLOCK_BYTES).then_some(offset)
    }

    /// [`Lazy::get`] as a [`Near`], where the engine has those.
    #[inline(always)]
    pub(crate) fn near(&self) -> Option<Near> {
        // Acquire: as in `get`.
        let bits = self.0.load(Ordering::Acquire);
        // SAFETY: as in `get`.
        unsafe { Near::from_bits(bits) }
    }

    /// The offset; allocates the object if it is not allocated yet. `None` when memory is out.
    #[cold]
    pub(crate) fn make(&self, shape: Shape) -> Option<usize> {
        // Relaxed: only decides whether to try; `get` orders.
        if self.0.load(Ordering::Relaxed) == 0 {
            let made = take(shape);
            let bits =
                made.map_or(1, |offset| Near::new(offset).map_or(offset as u64, Near::to_bits));
            // Release pairs with the Acquire in `get`. Relaxed on failure: `get` reads again.
            let won = self.0.compare_exchange(0, bits, Ordering::Release, Ordering::Relaxed);
            if let (Err(_), Ok(offset)) = (won, made) {
                // SAFETY: just allocated, and not published.
                unsafe { give(offset, shape, Reach::Used) };
            }
        }
        self.get()
    }

    /// Frees the object.
    ///
    /// # Safety
    /// `shape` is that of [`Lazy::make`], and the object is not used any more.
    pub(crate) unsafe fn end(&mut self, shape: Shape) {
        if let Some(offset) = self.get() {
            // SAFETY: the same contract.
            unsafe { give(offset, shape, Reach::Used) };
        }
        *self.0.get_mut() = 0;
    }
}

/// True when an object of this shape can be at an offset.
pub(super) fn is_inside(offset: usize, shape: Shape) -> bool {
    let end = offset + shape.size;
    let is_started = area::slot_count() > 0 && caches::is_open();
    is_started && offset >= BLOCK_BYTES && end <= rows::committed_bytes()
}

/// Returns all pages without an object to the system.
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

    /// Allocates objects of three shapes: one with a class, a large one, and one in between.
    fn take_some() -> Vec<(usize, Shape)> {
        let shapes = [(8, 8), (24, 8), (20_000, 64)].map(|(size, align)| Shape { size, align });
        let take = |number: usize| {
            let shape = shapes[number % 3];
            (take_uncached(shape).unwrap(), shape)
        };
        (0..60).map(take).collect()
    }

    /// A word in the first row, which is always open.
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
            // SAFETY: allocated above, and used by no other thread.
            unsafe { give(offset, shape, Reach::Open) };
        }
        caches::drain();
        trim();
        assert!(take_some().iter().all(|(offset, _)| *offset >= base));
    }
}
