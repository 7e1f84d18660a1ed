//! Typed per-CPU values: one in every slot.
//!
//! There is never a `&mut` to the current slot's value, because a program cannot disable preemption
//! or migration. Instead there are:
//!
//! - [`PerCpu::get`]: `&T` of the current slot, for values with atomics of their own. The thread
//!   may move to another slot right after, so the value is local most of the time, but never
//!   private.
//! - [`SlotCell`]: an integer changed by transactions. Each transaction happens entirely on one
//!   slot, without an atomic instruction.

mod cell;
mod lazy;
mod zeroed;

pub use cell::{CellRef, CellValue, Field, SlotCell};
pub use lazy::PerCpuStatic;
pub use zeroed::Zeroed;

use core::fmt;
use core::marker::PhantomData;
use core::num::NonZeroU32;

use crate::dynamic::Shape;
use crate::memory::Error;
use crate::memory::access::{open_row, row_or_shared};
use crate::memory::objects;
use crate::rows;
use crate::word::RowWord;

/// A value of type `T` in every slot; cf. the kernel's `alloc_percpu`.
///
/// ```
/// use core::sync::atomic::{AtomicU64, Ordering};
/// use sheaves_percpu::{PerCpu, SlotCell, Zeroed};
///
/// #[derive(Default)]
/// struct Latency {
///     slowest: AtomicU64,
/// }
/// // SAFETY: zero is a valid value of the field.
/// unsafe impl Zeroed for Latency {}
///
/// let latency = PerCpu::<Latency>::zeroed()?;
/// latency.get().slowest.fetch_max(250, Ordering::Relaxed);
/// let slowest = latency.iter().map(|slot| slot.slowest.load(Ordering::Relaxed)).max();
/// assert_eq!(slowest, Some(250));
///
/// // An integer that is changed by transactions.
/// let served = PerCpu::<SlotCell<u64>>::zeroed()?;
/// served.add(3);
/// assert_eq!(served.sum(), 3);
/// # Ok::<(), sheaves_percpu::memory::Error>(())
/// ```
///
/// Dropping it drops every slot's value and frees the memory. Creating and dropping may sleep on a
/// lock for microseconds; see [`crate::memory::alloc`]. After a fork, parent and child have
/// separate values.
///
/// # Invariants
/// `object` stays allocated with the shape of `T` while this exists. It holds a `T` in every row
/// that `rows::written` returns.
#[repr(transparent)]
pub struct PerCpu<T> {
    object: Object,
    values: PhantomData<T>,
}

/// Offset of a value.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
struct Object(NonZeroU32);

impl Object {
    fn new(offset: usize) -> Object {
        // Offset 0 is impossible: the block is at the start of each row.
        Object(NonZeroU32::new(offset as u32).unwrap_or(NonZeroU32::MAX))
    }

    #[inline]
    fn offset(self) -> usize {
        self.0.get() as usize
    }

    fn at<T>(self, row: usize) -> *mut T {
        core::ptr::with_exposed_provenance_mut(rows::row(row) + self.offset())
    }
}

// SAFETY: a drop in another thread drops the values there, and `T: Send`.
unsafe impl<T: Send> Send for PerCpu<T> {}
// SAFETY: a shared `PerCpu` gives only shared access to its values.
unsafe impl<T: Sync> Sync for PerCpu<T> {}

const fn shape_of<T>() -> Result<Shape, Error> {
    Shape::new(size_of::<T>(), align_of::<T>())
}

impl<T: Zeroed> PerCpu<T> {
    /// Creates one that is zero in every slot, without touching its memory.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::ZeroSize`] and [`Error::TooLarge`] depend on the type only.
    pub fn zeroed() -> Result<PerCpu<T>, Error> {
        let offset = objects::alloc(const { shape_of::<T>() }?)?;
        // INVARIANT: memory of rows is zero, which is a valid T.
        Ok(PerCpu { object: Object::new(offset), values: PhantomData })
    }
}

impl<T> PerCpu<T> {
    /// Creates one whose value in each slot is `value(slot)`.
    ///
    /// All slots get their values now, so slots that no thread has used cost memory, too. The row
    /// that threads without a slot share also gets a value: `value(n)`, where `n` is the number of
    /// slots. Use [`PerCpu::zeroed`] where zero is a good initial value.
    ///
    /// # Errors
    /// As [`PerCpu::zeroed`].
    pub fn with(value: impl FnMut(usize) -> T) -> Result<PerCpu<T>, Error> {
        let shape = const { shape_of::<T>() }?;
        let offset = objects::alloc(shape)?;
        let object = Object::new(offset);
        let mut filling = Filling { object, shape, filled: 0, values: PhantomData };
        filling.run(value)?;
        core::mem::forget(filling);
        // INVARIANT: every row has been opened and filled.
        Ok(PerCpu { object, values: PhantomData })
    }

    /// Converts it into a number of four bytes, for example for a tagged word, a table or a foreign
    /// language. The values stay allocated until [`PerCpu::from_raw`] takes the number back.
    ///
    /// ```
    /// use sheaves_percpu::{PerCpu, SlotCell};
    ///
    /// let number = PerCpu::<SlotCell<u64>>::zeroed()?.into_raw();
    /// // SAFETY: the number of a value of this type, which is turned back once.
    /// let hits = unsafe { PerCpu::<SlotCell<u64>>::from_raw(number) };
    /// hits.add(1);
    /// assert_eq!(hits.sum(), 1);
    /// # Ok::<(), sheaves_percpu::memory::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn into_raw(self) -> NonZeroU32 {
        core::mem::ManuallyDrop::new(self).object.0
    }

    /// Converts the number of [`PerCpu::into_raw`] back.
    ///
    /// # Safety
    /// The number is from [`PerCpu::into_raw`] of this type, in this process or in a parent of it.
    /// It is converted back once; or at most one result is dropped, after the last use of all
    /// results.
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(number: NonZeroU32) -> PerCpu<T> {
        // INVARIANT: that of the value that the number was made from.
        PerCpu { object: Object(number), values: PhantomData }
    }

    /// The value of the current slot. The thread may move to another slot at any time, so the value
    /// is local most of the time, but not private.
    #[inline]
    #[must_use]
    pub fn get(&self) -> &T
    where
        T: Sync,
    {
        let value = row_or_shared() + self.object.offset();
        // SAFETY: by the invariant there is a T, shared while `self` is.
        unsafe { &*core::ptr::with_exposed_provenance::<T>(value) }
    }

    /// The values of all slots that threads have used, possibly of more slots, and of the shared
    /// row if a thread without a slot has used it. All other values are still zero.
    pub fn iter(&self) -> impl Iterator<Item = &T>
    where
        T: Sync,
    {
        rows::written().map(|row| {
            // SAFETY: by the invariant there is a T in each of these rows.
            unsafe { &*self.object.at::<T>(row) }
        })
    }

    /// [`PerCpu::iter`] with exclusive access.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        rows::written().map(|row| {
            // SAFETY: by the invariant there is a T in each of these rows; the borrow of `self` is
            // exclusive, and each row occurs once.
            unsafe { &mut *self.object.at::<T>(row) }
        })
    }

    /// The [`SlotCell`] in a field of the value, for transactions.
    ///
    /// ```
    /// use sheaves_percpu::{PerCpu, SlotCell, Zeroed, field};
    ///
    /// struct Requests {
    ///     good: SlotCell<u64>,
    ///     bad: SlotCell<u64>,
    /// }
    /// // SAFETY: zero is a valid value of both fields.
    /// unsafe impl Zeroed for Requests {}
    ///
    /// let requests = PerCpu::<Requests>::zeroed()?;
    /// requests.cell(field!(Requests, bad)).add(1);
    /// assert_eq!(requests.cell(field!(Requests, bad)).sum(), 1);
    /// assert_eq!(requests.cell(field!(Requests, good)).sum(), 0);
    /// # Ok::<(), sheaves_percpu::memory::Error>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn cell<W: CellValue>(&self, field: Field<T, W>) -> CellRef<'_, W> {
        // SAFETY: the value stays allocated while `self` is borrowed, and has a cell there.
        let word = unsafe { RowWord::new(self.object.offset() + field.byte()) };
        CellRef::new(word)
    }
}

impl<W: CellValue> PerCpu<SlotCell<W>> {
    #[inline(always)]
    fn whole(&self) -> CellRef<'_, W> {
        // SAFETY: the value is the cell, and stays allocated while `self` is borrowed.
        let word = unsafe { RowWord::new(self.object.offset()) };
        CellRef::new(word)
    }

    /// Adds to the current slot's value, see [`CellRef::add`].
    #[inline(always)]
    pub fn add(&self, amount: W) {
        self.whole().add(amount);
    }

    /// Subtracts from the current slot's value, see [`CellRef::sub`].
    #[inline(always)]
    pub fn sub(&self, amount: W) {
        self.whole().sub(amount);
    }

    /// The current slot's value, see [`CellRef::load`].
    #[inline]
    #[must_use]
    pub fn load(&self) -> W {
        self.whole().load()
    }

    /// Replaces the current slot's value, see [`CellRef::cmp_store`].
    #[inline]
    #[must_use]
    pub fn cmp_store(&self, expected: W, new: W) -> bool {
        self.whole().cmp_store(expected, new)
    }

    /// The sum over all slots, see [`CellRef::sum`].
    #[must_use]
    pub fn sum(&self) -> W {
        self.whole().sum()
    }
}

impl<T> Drop for PerCpu<T> {
    fn drop(&mut self) {
        if core::mem::needs_drop::<T>() {
            for row in rows::written() {
                // SAFETY: by the invariant there is a T, which is not used after this.
                unsafe { self.object.at::<T>(row).drop_in_place() };
            }
        }
        if let Ok(shape) = const { shape_of::<T>() } {
            // SAFETY: by the invariant the object is allocated with this shape; this frees it,
            // once.
            unsafe { objects::free(self.object.offset(), shape) };
        }
    }
}

impl<T: Sync + fmt::Debug> fmt::Debug for PerCpu<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Writes a value into every row. Dropped before the end, it drops the values written so far and
/// frees the object.
struct Filling<T> {
    object: Object,
    shape: Shape,
    /// Rows 0..filled hold a value.
    filled: usize,
    values: PhantomData<T>,
}

impl<T> Filling<T> {
    fn run(&mut self, mut value: impl FnMut(usize) -> T) -> Result<(), Error> {
        for row in 0..=rows::shared() {
            if !open_row(row) {
                return Err(Error::NoMemory);
            }
            let value = value(row);
            // SAFETY: the row is open, and the object in it belongs to `self` alone.
            unsafe { self.object.at::<T>(row).write(value) };
            self.filled = row + 1;
        }
        Ok(())
    }
}

impl<T> Drop for Filling<T> {
    fn drop(&mut self) {
        for row in 0..self.filled {
            // SAFETY: written by `run`, used by no other thread.
            unsafe { self.object.at::<T>(row).drop_in_place() };
        }
        // SAFETY: allocated with this shape, used by no other thread.
        unsafe { objects::free(self.object.offset(), self.shape) };
    }
}

const _: () = {
    assert!(rows::ROW_BYTES_MAX <= u32::MAX as usize);
    assert!(size_of::<Option<PerCpu<u64>>>() == 4);
};
