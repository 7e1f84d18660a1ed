//! Per-CPU integers that are changed by transactions.

use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::engine::Access;
use crate::engine::rows::{self as transactions, Outcome, slow};
use crate::memory::access::{retry, row_or_shared, shared_row};
use crate::percpu::zeroed::Zeroed;
use crate::rows;
use crate::word::RowWord;

/// An integer of eight bytes, which a [`SlotCell`] can hold. Not for other types.
pub trait CellValue: Copy + Eq {
    #[doc(hidden)]
    fn from_word(word: usize) -> Self;
    #[doc(hidden)]
    fn into_word(self) -> usize;
}

macro_rules! cell_value {
    ($($type:ty),+) => {$(
        impl CellValue for $type {
            #[inline(always)]
            fn from_word(word: usize) -> $type {
                word as $type
            }
            #[inline(always)]
            fn into_word(self) -> usize {
                self as usize
            }
        }
    )+};
}

cell_value!(usize, isize, u64, i64);

/// An integer in each slot, changed by the transactions of [`CellRef`] only.
///
/// Through a `&SlotCell` it can only be read: threads of its slot add to it without atomic
/// instructions, so a store from another CPU would undo additions.
#[repr(C, align(8))]
pub struct SlotCell<W> {
    word: AtomicUsize,
    value: PhantomData<W>,
}

impl<W: CellValue> SlotCell<W> {
    /// For the initial value in [`PerCpu::with`](crate::PerCpu::with).
    #[must_use]
    pub fn new(value: W) -> SlotCell<W> {
        SlotCell { word: AtomicUsize::new(value.into_word()), value: PhantomData }
    }

    /// The value at this moment.
    #[inline]
    #[must_use]
    pub fn load(&self) -> W {
        // Relaxed: an integer that publishes no other memory.
        W::from_word(self.word.load(Ordering::Relaxed))
    }
}

// SAFETY: zero is a valid integer.
unsafe impl<W: CellValue> Zeroed for SlotCell<W> {}

impl<W: CellValue + fmt::Debug> fmt::Debug for SlotCell<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SlotCell").field(&self.load()).finish()
    }
}

/// The offset of a [`SlotCell<W>`] in a `T`. Created by [`crate::field!`] at compile time.
///
/// # Invariants
/// Every value of type `T` has a `SlotCell<W>` at this byte.
pub struct Field<T, W> {
    pub(super) byte: usize,
    field: PhantomData<fn(&T) -> &SlotCell<W>>,
}

impl<T, W> Field<T, W> {
    /// For [`crate::field!`] only.
    ///
    /// # Safety
    /// The invariant of the type.
    #[doc(hidden)]
    pub const unsafe fn new(byte: usize, _: fn(&T) -> &SlotCell<W>) -> Field<T, W> {
        // INVARIANT: the same contract.
        Field { byte, field: PhantomData }
    }
}

impl<T, W> fmt::Debug for Field<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Field").field("byte", &self.byte).finish()
    }
}

/// Names a [`SlotCell`] field by the struct's type and the field's name; see [`PerCpu::cell`].
///
/// [`PerCpu::cell`]: crate::PerCpu::cell
#[macro_export]
macro_rules! field {
    ($type:ty, $field:ident $(. $inner:ident)*) => {
        const {
            // Outside of the unsafe block, so that a field of a union does not compile.
            let field: fn(&$type) -> &_ = |value| &value.$field $(. $inner)*;
            let byte = ::core::mem::offset_of!($type, $field $(. $inner)*);
            // SAFETY: every value of the struct has this field, and `field` shows its type.
            unsafe { $crate::Field::new(byte, field) }
        }
    };
}

/// The [`SlotCell`]s at one offset in all slots, and the transactions on them.
///
/// With rseq, each transaction is one critical section, without an atomic instruction or a lock.
/// None waits. A thread without a slot changes the shared row, by atomics. Async-signal-safe.
///
/// # Invariants
/// `word` is a [`SlotCell`] in an object that stays allocated for `'a`.
#[derive(Clone, Copy)]
pub struct CellRef<'a, W> {
    word: RowWord,
    object: PhantomData<&'a SlotCell<W>>,
}

impl<'a, W: CellValue> CellRef<'a, W> {
    /// The cell at an offset in each row, see [`CellRef::offset`]; for arrays of cells.
    ///
    /// # Safety
    /// There is a [`SlotCell<W>`] at that place, in an object that stays allocated for `'a`.
    #[inline(always)]
    #[must_use]
    pub unsafe fn at(offset: usize) -> CellRef<'a, W> {
        // SAFETY: the same contract.
        let word = unsafe { RowWord::new(offset) };
        // INVARIANT: the same contract.
        CellRef { word, object: PhantomData }
    }

    /// Its offset in each row, in bytes: an offset in the object, and where the object begins.
    #[inline(always)]
    #[must_use]
    pub fn offset(self) -> usize {
        self.word.offset()
    }

    /// Adds to the current slot's value, wrapping.
    #[inline(always)]
    pub fn add(self, amount: W) {
        let amount = amount.into_word();
        if transactions::add(self.access(), self.word, amount) != Outcome::Done {
            add_slow(self.word, amount);
        }
    }

    /// Adds 1. In a loop, some CPUs (Intel since Golden Cove) run this several times as fast as
    /// [`CellRef::add`], whose amount is not a constant.
    #[inline(always)]
    pub fn increment(self) {
        self.add_const::<1>(self.access());
    }

    /// [`CellRef::increment`] with a kept [`Access`], for several increments in a row.
    #[inline(always)]
    pub fn increment_by(self, access: Access) {
        self.add_const::<1>(access);
    }

    /// Subtracts 1; as fast as [`CellRef::increment`].
    #[inline(always)]
    pub fn decrement(self) {
        self.add_const::<-1>(self.access());
    }

    /// Subtracts from the current slot's value, wrapping.
    #[inline(always)]
    pub fn sub(self, amount: W) {
        self.add(W::from_word(amount.into_word().wrapping_neg()));
    }

    /// The current slot's value. A hint: the thread may move to another slot at any time.
    #[inline]
    #[must_use]
    pub fn load(self) -> W {
        // Relaxed: a hint; a caller that acts on it compares again.
        W::from_word(self.word.in_row(row_or_shared()).load(Ordering::Relaxed))
    }

    /// Stores `new` in the current slot if that slot holds `expected`; returns whether it did. The
    /// slot may be another one than that of an earlier [`CellRef::load`].
    #[inline]
    #[must_use]
    pub fn cmp_store(self, expected: W, new: W) -> bool {
        let (expected, new) = (expected.into_word(), new.into_word());
        match transactions::cmp_store(self.access(), self.word, expected, new) {
            Outcome::Done => true,
            Outcome::Declined => false,
            Outcome::NoBlock => cmp_store_slow(self.word, expected, new),
        }
    }

    /// The sum over all slots, wrapping.
    ///
    /// The result contains every addition that happened before the call. A concurrent addition may
    /// be missing, while a later one by the same thread, on another slot, is contained.
    #[must_use]
    pub fn sum(self) -> W {
        // Relaxed: see above; an integer that publishes no other memory.
        let value = |row| self.word.in_row(rows::row(row)).load(Ordering::Relaxed);
        W::from_word(rows::written().map(value).fold(0, usize::wrapping_add))
    }

    #[inline(always)]
    fn access(self) -> Access {
        // SAFETY: by the invariant there is an object, so the engine has started.
        unsafe { Access::of_started() }
    }

    #[inline(always)]
    fn add_const<const AMOUNT: i32>(self, access: Access) {
        if transactions::add_const::<AMOUNT>(access, self.word) != Outcome::Done {
            add_slow(self.word, AMOUNT as usize);
        }
    }
}

// Functions of their own, so that there is one of each for all types of cells.

#[cold]
#[inline(never)]
fn add_slow(word: RowWord, amount: usize) {
    if retry(|| slow::add(word, amount)).is_none() {
        // Relaxed: an integer that publishes no other memory.
        word.in_row(shared_row()).fetch_add(amount, Ordering::Relaxed);
    }
}

#[cold]
#[inline(never)]
fn cmp_store_slow(word: RowWord, expected: usize, new: usize) -> bool {
    if let Some(outcome) = retry(|| slow::cmp_store(word, expected, new)) {
        return outcome == Outcome::Done;
    }
    // AcqRel pairs with itself, on the same word: transactions on a row are ordered. Relaxed on
    // failure: the value is not used.
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    word.in_row(shared_row()).compare_exchange(expected, new, success, failure).is_ok()
}

impl<W: CellValue + fmt::Debug> fmt::Debug for CellRef<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CellRef").field("sum", &self.sum()).finish()
    }
}

const _: () = {
    assert!(size_of::<SlotCell<u64>>() == 8);
    assert!(size_of::<usize>() == 8);
};
