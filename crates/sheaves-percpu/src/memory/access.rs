//! Getting at objects: transactions on their words, in the current slot's row and in all.
//!
//! A transaction here always happens. Where the current slot has no block, and none can be had at
//! once, it goes to the shared row, by an atomic instruction.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::area::{self, rows};
use crate::engine::Access;
use crate::engine::rows::{self as transactions, Outcome, slow};
use crate::memory::Handle;
use crate::memory::clear::Reach;
use crate::slots::{self, Attached};

/// How often a transaction looks for a block before it goes to the shared row.
const ATTEMPTS: u32 = 64;

/// The word of an object in a row.
///
/// # Safety
/// The row is open, and the eight bytes at the offset, a multiple of 8, lie in an object that is
/// out and of which only transactions change these bytes.
#[inline]
unsafe fn word(row: usize, offset: usize) -> &'static AtomicUsize {
    area::word_at(rows::row(row) + offset)
}

/// The word of an object in the row of threads without a slot.
///
/// # Safety
/// As [`word`].
unsafe fn shared_word(offset: usize) -> &'static AtomicUsize {
    rows::touch_shared();
    // SAFETY: the shared row is open since the first allocation; the rest is the same contract.
    unsafe { word(rows::shared(), offset) }
}

/// Runs a transaction until it comes to an end; `None` when there is no block for it.
#[cold]
pub(crate) fn retry(transaction: impl Fn() -> Outcome) -> Option<Outcome> {
    for _ in 0..ATTEMPTS {
        let outcome = transaction();
        if outcome != Outcome::NoBlock {
            return Some(outcome);
        }
        if slots::attach_at_once() == Attached::No {
            // Registration is refused, or a drain has the blocks for a moment.
            core::hint::spin_loop();
        }
    }
    None
}

/// Adds to the current slot's word, wrapping.
///
/// # Safety
/// As [`word`], in every row.
#[inline(always)]
pub(crate) unsafe fn add_at(offset: usize, amount: usize) {
    // SAFETY: there are objects, so the engine has started.
    let access = unsafe { Access::of_started() };
    // SAFETY: the same contract.
    if unsafe { transactions::add(access, offset, amount) } != Outcome::Done {
        // SAFETY: the same contract.
        unsafe { add_slow(offset, amount) };
    }
}

/// [`add_at`] of an amount that is known (see [`transactions::add_const`]), for whoever has the
/// access.
///
/// # Safety
/// As [`add_at`].
#[inline(always)]
pub(crate) unsafe fn add_const_by<const AMOUNT: i32>(access: Access, offset: usize) {
    // SAFETY: the same contract.
    if unsafe { transactions::add_const::<AMOUNT>(access, offset) } != Outcome::Done {
        // SAFETY: the same contract.
        unsafe { add_slow(offset, AMOUNT as usize) };
    }
}

/// # Safety
/// As [`add_at`].
#[cold]
#[inline(never)]
unsafe fn add_slow(offset: usize, amount: usize) {
    // SAFETY: the same contract.
    if retry(|| unsafe { slow::add(offset, amount) }).is_none() {
        // SAFETY: the same contract.
        let word = unsafe { shared_word(offset) };
        // Relaxed: a number, which promises nothing about other memory.
        word.fetch_add(amount, Ordering::Relaxed);
    }
}

/// Replaces the current slot's word where it holds `expected`.
///
/// # Safety
/// As [`add_at`].
#[inline]
pub(crate) unsafe fn cmp_store_at(offset: usize, expected: usize, new: usize) -> bool {
    // SAFETY: there are objects, so the engine has started.
    let access = unsafe { Access::of_started() };
    // SAFETY: the same contract.
    match unsafe { transactions::cmp_store(access, offset, expected, new) } {
        Outcome::Done => true,
        Outcome::Declined => false,
        // SAFETY: the same contract.
        Outcome::NoBlock => unsafe { cmp_store_slow(offset, expected, new) },
    }
}

/// # Safety
/// As [`add_at`].
#[cold]
#[inline(never)]
unsafe fn cmp_store_slow(offset: usize, expected: usize, new: usize) -> bool {
    // SAFETY: the same contract.
    if let Some(outcome) = retry(|| unsafe { slow::cmp_store(offset, expected, new) }) {
        return outcome == Outcome::Done;
    }
    // SAFETY: the same contract.
    let word = unsafe { shared_word(offset) };
    // AcqRel pairs with itself, on the same word: transactions of a row are ordered. Relaxed on
    // failure: the value is not looked at.
    word.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// What the current slot's word holds now: a hint.
///
/// # Safety
/// As [`add_at`].
#[inline]
pub(crate) unsafe fn load_at(offset: usize) -> usize {
    // SAFETY: the row is one that the offset's object lies in.
    let word = area::word_at(current_row() + offset);
    // Relaxed: a hint; who acts on it compares.
    word.load(Ordering::Relaxed)
}

/// The current slot's row, the shared one for a thread without a slot: a hint.
#[inline]
pub(crate) fn current_row() -> usize {
    transactions::current_row().unwrap_or_else(current_row_slow)
}

#[cold]
#[inline(never)]
fn current_row_slow() -> usize {
    for _ in 0..ATTEMPTS {
        let attached = slots::attach_at_once();
        if let Some(row) = transactions::current_row() {
            return row;
        }
        if attached == Attached::No {
            core::hint::spin_loop();
        }
    }
    rows::touch_shared();
    rows::row(rows::shared())
}

/// The sum of a word over all slots, wrapping. Additions that go on meanwhile may be in it or not.
///
/// # Safety
/// As [`add_at`].
pub(crate) unsafe fn sum_at(offset: usize, reach: Reach) -> usize {
    let mut sum = 0_usize;
    reach.each(|row| {
        // SAFETY: the same contract; the row is open.
        let word = unsafe { word(row, offset) };
        // Relaxed: additions that happened before this call are in it, and no others need to be.
        sum = sum.wrapping_add(word.load(Ordering::Relaxed));
    });
    sum
}

/// Makes a slot's row readable and writable, whether or not a thread has used the slot. False when
/// there is no memory.
pub(crate) fn open_row(slot: usize) -> bool {
    if slot == rows::shared() {
        rows::touch_shared();
    }
    rows::is_open(slot) || {
        let _slots = slots::SLOTS.lock();
        rows::open(slot)
    }
}

/// Adds to the word of the current slot that begins `byte` bytes into an object, wrapping.
///
/// One transaction: no atomic instruction, no lock; never waits. Async-signal-safe.
///
/// # Safety
/// All functions on words: `handle` is out, its alignment is 8 or more, `byte` is a multiple of 8
/// and at least 8 below its size, and these eight bytes are changed by transactions only.
#[inline]
pub unsafe fn add(handle: Handle, byte: usize, amount: usize) {
    // SAFETY: the same contract.
    unsafe { add_at(handle.offset() + byte, amount) }
}

/// What the word of the current slot holds now: a hint, old as soon as it is returned.
///
/// # Safety
/// As [`add`].
#[inline]
#[must_use]
pub unsafe fn load(handle: Handle, byte: usize) -> usize {
    // SAFETY: the same contract.
    unsafe { load_at(handle.offset() + byte) }
}

/// Replaces the word of the current slot by `new` if it holds `expected`; whether it did.
///
/// # Safety
/// As [`add`].
#[inline]
#[must_use]
pub unsafe fn cmp_store(handle: Handle, byte: usize, expected: usize, new: usize) -> bool {
    // SAFETY: the same contract.
    unsafe { cmp_store_at(handle.offset() + byte, expected, new) }
}

/// The sum of a word over all slots, wrapping. Additions that go on meanwhile may be in it or not.
///
/// # Safety
/// As [`add`].
#[must_use]
pub unsafe fn sum(handle: Handle, byte: usize) -> usize {
    // SAFETY: the same contract.
    unsafe { sum_at(handle.offset() + byte, Reach::Open) }
}

/// The address of an object in the row of a slot, whether or not a thread has used the slot; `None`
/// when there is no such slot or no memory. The number of slots is that of the row which
/// threads without a slot share.
///
/// The memory is valid as long as the object is out. Other threads may be at it by transactions, so
/// access is by atomics, or where the program knows better.
#[must_use]
pub fn address(handle: Handle, slot: usize) -> Option<NonNull<u8>> {
    if area::slot_count() == 0 || slot > rows::shared() {
        return None;
    }
    let address = rows::row(slot) + handle.offset();
    NonNull::new(core::ptr::with_exposed_provenance_mut(address)).filter(|_| open_row(slot))
}
