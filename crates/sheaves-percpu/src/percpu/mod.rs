//! Values that exist once in every slot.
//!
//! There is never a `&mut` to "the current slot's" value: a program cannot keep its threads from
//! being moved in the middle of things. What there is instead:
//!
//! - [`PerCpu::get`]: `&T` of the current slot, for values with atomics of their own. Which slot it
//!   is can change right after, so it is near, not private.
//! - [`SlotCell`]: numbers that change by transactions, each of which happens entirely on one slot,
//!   without atomic instructions.

mod cell;
mod lazy;
mod zeroed;

pub use cell::{CellRef, CellValue, Field, SlotCell};
pub use lazy::PerCpuStatic;
pub use zeroed::Zeroed;

use core::fmt;
use core::marker::PhantomData;
use core::num::NonZeroU32;

use crate::area::rows;

use crate::memory::Error;
use crate::memory::access::{current_row, open_row};
use crate::memory::clear::Reach;
use crate::memory::state::{self, Shape};
use crate::slots;

/// A value of type `T` in every slot.
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
/// // A number that changes by transactions.
/// let served = PerCpu::<SlotCell<u64>>::zeroed()?;
/// served.add(3);
/// assert_eq!(served.sum(), 3);
/// # Ok::<(), sheaves_percpu::memory::Error>(())
/// ```
///
/// Dropping it drops the value of every slot and gives the memory back. Making and dropping one may
/// sleep on a lock for microseconds; see [`crate::memory::alloc`]. After a fork parent and child
/// have values of their own.
///
/// # Invariants
/// `object` is out for as long as this exists, with the shape of `T`, and holds a `T` in every row
/// of its reach.
#[repr(transparent)]
pub struct PerCpu<T> {
    object: Object,
    values: PhantomData<T>,
}

/// Where a value lies, and in which rows there is one: the offset, which is a multiple of 4, and
/// bit 0 for [`Reach::Open`].
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
struct Object(NonZeroU32);

impl Object {
    fn new(offset: usize, reach: Reach) -> Object {
        let bits = offset as u32 | u32::from(reach == Reach::Open);
        // No object lies at the head of a row, where the block is.
        Object(NonZeroU32::new(bits).unwrap_or(NonZeroU32::MAX))
    }

    #[inline]
    fn offset(self) -> usize {
        (self.0.get() & !1) as usize
    }

    #[inline]
    fn reach(self) -> Reach {
        if self.0.get() & 1 == 0 { Reach::Used } else { Reach::Open }
    }

    /// The value in a row.
    fn at<T>(self, row: usize) -> *mut T {
        core::ptr::with_exposed_provenance_mut(rows::row(row) + self.offset())
    }
}

// SAFETY: dropping it in another thread drops the values there.
unsafe impl<T: Send> Send for PerCpu<T> {}
// SAFETY: a shared one gives shared access to its values only.
unsafe impl<T: Sync> Sync for PerCpu<T> {}

/// The shape of a type.
const fn shape_of<T>() -> Result<Shape, Error> {
    Shape::new(size_of::<T>(), align_of::<T>())
}

impl<T: Zeroed> PerCpu<T> {
    /// Makes one that is zero in every slot. Touches none of its memory.
    ///
    /// # Errors
    /// See [`Error`]; [`Error::ZeroSize`] and [`Error::TooLarge`] depend on the type only.
    pub fn zeroed() -> Result<PerCpu<T>, Error> {
        let offset = state::take(const { shape_of::<T>() }?)?;
        // INVARIANT: memory of rows is zero, which is a T.
        Ok(PerCpu { object: Object::new(offset, Reach::Used), values: PhantomData })
    }
}

impl<T> PerCpu<T> {
    /// Makes one whose value in each slot is what `value` returns for the slot's number.
    ///
    /// All slots get their values now, also those that no thread has used, so each of them costs
    /// memory; and so does the place that threads without a slot share, whose number is that of the
    /// slots. Use [`PerCpu::zeroed`] where zero will do.
    ///
    /// # Errors
    /// As [`PerCpu::zeroed`].
    pub fn with(value: impl FnMut(usize) -> T) -> Result<PerCpu<T>, Error> {
        let shape = const { shape_of::<T>() }?;
        let offset = state::take(shape)?;
        let object = Object::new(offset, Reach::Open);
        let mut filling = Filling { object, shape, filled: 0, values: PhantomData };
        filling.run(value)?;
        core::mem::forget(filling);
        // INVARIANT: every row has been opened and filled.
        Ok(PerCpu { object, values: PhantomData })
    }

    /// Turns it into a number, for a place that has four bytes for it: a tagged word, a table, a
    /// program in another language. The values stay until [`PerCpu::from_raw`] has it back.
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

    /// What [`PerCpu::into_raw`] made a number of.
    ///
    /// # Safety
    /// The number came from there, for this type and in this process or a parent of it, and is
    /// turned back once; or only one of the results is ever dropped, as its last use.
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(number: NonZeroU32) -> PerCpu<T> {
        // INVARIANT: that of the value which the number was made of.
        PerCpu { object: Object(number), values: PhantomData }
    }

    /// The value of the slot on which the thread is now, or of the next one it moves to: near, but
    /// not private.
    #[inline]
    #[must_use]
    pub fn get(&self) -> &T
    where
        T: Sync,
    {
        let value = current_row() + self.object.offset();
        // SAFETY: by the invariant there is a T, shared as long as `self` is.
        unsafe { &*core::ptr::with_exposed_provenance::<T>(value) }
    }

    /// The values of all slots that threads have used, and that of threads without a slot if
    /// there were any; with [`PerCpu::with`] those of all slots. The others are zero.
    pub fn iter(&self) -> impl Iterator<Item = &T>
    where
        T: Sync,
    {
        self.rows().map(|row| {
            // SAFETY: by the invariant there is a T in each of these rows.
            unsafe { &*self.object.at::<T>(row) }
        })
    }

    /// The values of the same slots, when nobody else can be at them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.rows().map(|row| {
            // SAFETY: by the invariant there is a T in each of these rows; `self` is borrowed as
            // ours alone, and each row comes once.
            unsafe { &mut *self.object.at::<T>(row) }
        })
    }

    /// Rows that may hold something else than zero.
    fn rows(&self) -> impl Iterator<Item = usize> + use<T> {
        let all = self.object.reach() == Reach::Open;
        let used = slots::installed_indexes().chain(rows::touched_shared());
        let every = 0..=rows::shared();
        used.filter(move |_| !all).chain(every.filter(move |_| all))
    }

    /// A number inside the value, for transactions on it.
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
        let offset = self.object.offset() + field.byte();
        // SAFETY: the value is out as long as `self` is, and has a cell there.
        unsafe { CellRef::new(offset, self.object.reach()) }
    }
}

impl<W: CellValue> PerCpu<SlotCell<W>> {
    /// The number, for transactions on it.
    #[inline(always)]
    fn whole(&self) -> CellRef<'_, W> {
        // SAFETY: the value is the cell, and out as long as `self` is.
        unsafe { CellRef::new(self.object.offset(), self.object.reach()) }
    }

    /// Adds to the current slot's number, see [`CellRef::add`].
    #[inline(always)]
    pub fn add(&self, amount: W) {
        self.whole().add(amount);
    }

    /// Subtracts from the current slot's number, see [`CellRef::sub`].
    #[inline(always)]
    pub fn sub(&self, amount: W) {
        self.whole().sub(amount);
    }

    /// The current slot's number, see [`CellRef::load`].
    #[inline]
    #[must_use]
    pub fn load(&self) -> W {
        self.whole().load()
    }

    /// Replaces the current slot's number, see [`CellRef::cmp_store`].
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
            for row in self.rows() {
                // SAFETY: by the invariant there is a T, which nobody uses after this.
                unsafe { self.object.at::<T>(row).drop_in_place() };
            }
        }
        if let Ok(shape) = const { shape_of::<T>() } {
            // SAFETY: by the invariant the object is out with this shape; it ends here.
            unsafe { state::give(self.object.offset(), shape, self.object.reach()) };
        }
    }
}

impl<T: Sync + fmt::Debug> fmt::Debug for PerCpu<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A value on its way into every row. Dropped early, it takes back what it has done.
struct Filling<T> {
    object: Object,
    shape: Shape,
    /// Rows from 0 on that hold a value.
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
            // SAFETY: the row is open, and the object in it is ours alone.
            unsafe { self.object.at::<T>(row).write(value) };
            self.filled = row + 1;
        }
        Ok(())
    }
}

impl<T> Drop for Filling<T> {
    fn drop(&mut self) {
        for row in 0..self.filled {
            // SAFETY: written by `run`, used by nobody.
            unsafe { self.object.at::<T>(row).drop_in_place() };
        }
        // SAFETY: taken with this shape, used by nobody.
        unsafe { state::give(self.object.offset(), self.shape, Reach::Open) };
    }
}

const _: () = {
    assert!(rows::ROW_BYTES_MAX <= u32::MAX as usize);
    assert!(size_of::<Option<PerCpu<u64>>>() == 4);
};
