//! Typed per-CPU values: one in every slot.
//!
//! There is never a `&mut` to the current slot's value, because a program cannot disable preemption
//! or migration. Instead there are [`PerCpu::get`], for values with atomics of their own, and
//! [`SlotCell`], an integer changed by transactions, each of which happens entirely on one slot.

mod cell;
mod lazy;
mod zeroed;

pub use cell::{CellRef, CellValue, Field, SlotCell};
pub use lazy::PerCpuStatic;
pub use zeroed::Zeroed;

use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::num::NonZeroU32;

use crate::dynamic::{Error, Shape};
use crate::memory::access::{open_row, row_or_shared};
use crate::memory::objects;
use crate::rows;

/// A value of type `T` in every slot; cf. the kernel's `alloc_percpu`.
///
/// ```
/// # mod sheaves { pub use sheaves_percpu as percpu; }
/// use core::sync::atomic::{AtomicU64, Ordering};
/// use sheaves::percpu::{PerCpu, SlotCell};
///
/// let slowest = PerCpu::<AtomicU64>::zeroed()?;
/// slowest.get().fetch_max(250, Ordering::Relaxed);
/// assert_eq!(slowest.iter().map(|slot| slot.load(Ordering::Relaxed)).max(), Some(250));
///
/// // An integer that is changed by transactions.
/// let served = PerCpu::<SlotCell<u64>>::zeroed()?;
/// served.add(3);
/// assert_eq!(served.sum(), 3);
/// # Ok::<(), sheaves::percpu::memory::Error>(())
/// ```
///
/// Dropping it drops the values that [`PerCpu::iter`] returns, and frees the memory. Creating and
/// dropping may sleep on a lock for microseconds; see [`crate::memory::alloc`]. After a fork,
/// parent and child have separate values.
///
/// # Invariants
/// The object at `offset` stays allocated with the shape of `T` while this exists. It holds a `T`
/// in every row that `rows::written` returns.
#[repr(transparent)]
pub struct PerCpu<T> {
    offset: NonZeroU32,
    values: PhantomData<T>,
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
        // Offset 0 is impossible: the block is at the start of each row.
        let offset = NonZeroU32::new(offset as u32).unwrap_or(NonZeroU32::MAX);
        // INVARIANT: memory of rows is zero, which is a valid T.
        Ok(PerCpu { offset, values: PhantomData })
    }
}

impl<T> PerCpu<T> {
    /// Creates one whose value in each slot is `value(slot)`.
    ///
    /// All slots get their values now, so slots that no thread has used cost memory, too. So does
    /// the row that threads without a slot share: `value(n)`, where `n` is the number of slots.
    ///
    /// # Errors
    /// As [`PerCpu::zeroed`].
    pub fn with(mut value: impl FnMut(usize) -> T) -> Result<PerCpu<T>, Error> {
        let mut filling = Filling { object: PerCpu::<MaybeUninit<T>>::zeroed()?, filled: 0 };
        for row in 0..=rows::shared() {
            if !open_row(row) {
                return Err(Error::NoMemory);
            }
            let value = value(row);
            // SAFETY: the row is open, and the object in it belongs to `filling` alone.
            unsafe { filling.object.at(row).write(MaybeUninit::new(value)) };
            filling.filled = row + 1;
        }
        let offset = ManuallyDrop::new(filling).object.offset;
        // INVARIANT: every row has been opened and filled.
        Ok(PerCpu { offset, values: PhantomData })
    }

    #[inline]
    fn at(&self, row: usize) -> *mut T {
        core::ptr::with_exposed_provenance_mut(rows::row(row) + self.offset.get() as usize)
    }

    /// Converts it into a number of four bytes, for example for a tagged word, a table or a foreign
    /// language. The values stay allocated until [`PerCpu::from_raw`] takes the number back.
    #[inline]
    #[must_use]
    pub fn into_raw(self) -> NonZeroU32 {
        ManuallyDrop::new(self).offset
    }

    /// Converts the number of [`PerCpu::into_raw`] back.
    ///
    /// # Safety
    /// The number is from [`PerCpu::into_raw`] of this type, in this process or in a parent of it.
    /// It is converted back once. Or several times: then at most one result is dropped, after the
    /// last use of all, and all are used as references to one value may be: in several threads only
    /// if it is `Sync`, and [`PerCpu::iter_mut`] while no other one is used.
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(number: NonZeroU32) -> PerCpu<T> {
        // INVARIANT: that of the value that the number was made from.
        PerCpu { offset: number, values: PhantomData }
    }

    /// The value of the current slot. The thread may move to another slot at any time, so it is
    /// local most of the time, but not private.
    #[inline]
    #[must_use]
    pub fn get(&self) -> &T
    where
        T: Sync,
    {
        let value = row_or_shared() + self.offset.get() as usize;
        // SAFETY: by the invariant there is a T, shared while `self` is.
        unsafe { &*core::ptr::with_exposed_provenance::<T>(value) }
    }

    /// The values of all slots that threads have used, possibly of more slots, and of the shared
    /// row if a thread without a slot has used it. All other values are still zero.
    pub fn iter(&self) -> impl Iterator<Item = &T>
    where
        T: Sync,
    {
        // SAFETY: by the invariant there is a T in each of these rows.
        rows::written().map(|row| unsafe { &*self.at(row) })
    }

    /// [`PerCpu::iter`] with exclusive access.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        rows::written().map(|row| {
            // SAFETY: by the invariant there is a T in each of these rows; the borrow of `self` is
            // exclusive, and each row occurs once.
            unsafe { &mut *self.at(row) }
        })
    }

    /// The [`SlotCell`] in a field of the value, for transactions.
    ///
    /// ```
    /// # mod sheaves { pub use sheaves_percpu as percpu; }
    /// use sheaves::percpu::{PerCpu, SlotCell, Zeroed, field};
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
    /// # Ok::<(), sheaves::percpu::memory::Error>(())
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn cell<W: CellValue>(&self, field: Field<T, W>) -> CellRef<'_, W> {
        // SAFETY: the value stays allocated while `self` is borrowed, and has a cell there.
        unsafe { CellRef::at(self.offset.get() as usize + field.byte) }
    }
}

impl<W: CellValue> PerCpu<SlotCell<W>> {
    /// The value as a cell, for all its transactions.
    #[inline(always)]
    #[must_use]
    pub fn as_cell(&self) -> CellRef<'_, W> {
        // SAFETY: the value is the cell, and stays allocated while `self` is borrowed.
        unsafe { CellRef::at(self.offset.get() as usize) }
    }

    /// Adds to the current slot's value, see [`CellRef::add`].
    #[inline(always)]
    pub fn add(&self, amount: W) {
        self.as_cell().add(amount);
    }

    /// The sum over all slots, see [`CellRef::sum`].
    #[must_use]
    pub fn sum(&self) -> W {
        self.as_cell().sum()
    }
}

impl<T> Drop for PerCpu<T> {
    fn drop(&mut self) {
        // Frees the memory after the values are dropped, also if a destructor unwinds.
        let _memory = Memory::<T>(self.offset, PhantomData);
        if core::mem::needs_drop::<T>() {
            // SAFETY: by the invariant there is a T in each of these rows, not used after this.
            unsafe { drop_values(rows::written().map(|row| self.at(row))) };
        }
    }
}

/// The memory of a [`PerCpu`] without its values.
///
/// # Invariants
/// The object at the offset is allocated with the shape of `T`, and nothing else uses it.
struct Memory<T>(NonZeroU32, PhantomData<T>);

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        if let Ok(shape) = const { shape_of::<T>() } {
            // SAFETY: by the invariant; this frees it, once.
            unsafe { objects::free(self.0.get() as usize, shape) };
        }
    }
}

/// Drops these values. If a destructor unwinds, the others are dropped all the same.
///
/// # Safety
/// There is a value at each of the places, which is not used after this.
unsafe fn drop_values<T>(places: impl Iterator<Item = *mut T>) {
    struct Values<T, I: Iterator<Item = *mut T>>(I);
    impl<T, I: Iterator<Item = *mut T>> Values<T, I> {
        fn drop_each(&mut self) {
            for place in &mut self.0 {
                // SAFETY: the contract of the function.
                unsafe { place.drop_in_place() };
            }
        }
    }
    impl<T, I: Iterator<Item = *mut T>> Drop for Values<T, I> {
        fn drop(&mut self) {
            self.drop_each();
        }
    }
    // Those that are left if this unwinds are dropped with it.
    Values(places).drop_each();
}

impl<T: Sync + fmt::Debug> fmt::Debug for PerCpu<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

struct Filling<T> {
    object: PerCpu<MaybeUninit<T>>,
    /// Rows 0..filled hold a value.
    filled: usize,
}

impl<T> Drop for Filling<T> {
    fn drop(&mut self) {
        let places = (0..self.filled).map(|row| self.object.at(row).cast::<T>());
        // SAFETY: written by `with`, used by no other thread.
        unsafe { drop_values(places) };
    }
}

const _: () = {
    assert!(rows::ROW_BYTES_MAX <= u32::MAX as usize);
    assert!(size_of::<Option<PerCpu<u64>>>() == 4);
};
