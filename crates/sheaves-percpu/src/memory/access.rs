//! Access to objects: transactions on their words in the current slot's row, and sums over all
//! rows.
//!
//! A transaction here does not need a slot. When the current slot has no block and cannot
//! get one at once, the shared row is changed by an atomic instruction.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::area::{self, rows};
use crate::engine::Access;
use crate::engine::rows::{self as transactions, Outcome, slow};
use crate::memory::Handle;
use crate::memory::clear::Reach;
use crate::slots::{self, Attached};

/// How often a transaction looks for a block before it uses the shared row.
const ATTEMPTS: u32 = 64;

/// The word of an object in a row.
///
/// # Safety
/// The row is open. The eight bytes at the offset, a multiple of 8, are in an allocated object, and
/// only transactions change them.
#[inline]
unsafe fn word(row: usize, offset: usize) -> &'static AtomicUsize {
    area::word_at(rows::row(row) + offset)
}

/// The word of an object in the shared row, which is for threads without a slot.
///
/// # Safety
/// As [`word`].
unsafe fn shared_word(offset: usize) -> &'static AtomicUsize {
    rows::touch_shared();
    // SAFETY: the shared row is open since the first allocation; the rest is the same contract.
    unsafe { word(rows::shared(), offset) }
}

/// Repeats a transaction until it is done or declines; `None` when there is no block for it.
#[cold]
pub(crate) fn retry(transaction: impl Fn() -> Outcome) -> Option<Outcome> {
    for _ in 0..ATTEMPTS {
        let outcome = transaction();
        if outcome != Outcome::NoBlock {
            return Some(outcome);
        }
        if slots::attach_at_once() == Attached::No {
            // Registration is refused, or a drain has detached the blocks for a moment.
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
    // SAFETY: an object exists, so the engine has started.
    let access = unsafe { Access::of_started() };
    // SAFETY: the same contract.
    if unsafe { transactions::add(access, offset, amount) } != Outcome::Done {
        // SAFETY: the same contract.
        unsafe { add_slow(offset, amount) };
    }
}

/// [`add_at`] with a constant (see [`transactions::add_const`]) and an access that the caller has.
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
        // Relaxed: an integer that publishes no other memory.
        word.fetch_add(amount, Ordering::Relaxed);
    }
}

/// Replaces the current slot's word if it holds `expected`.
///
/// # Safety
/// As [`add_at`].
#[inline]
pub(crate) unsafe fn cmp_store_at(offset: usize, expected: usize, new: usize) -> bool {
    // SAFETY: an object exists, so the engine has started.
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
    // AcqRel pairs with itself, on the same word: transactions on a row are ordered. Relaxed on
    // failure: the value is not used.
    word.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// The current slot's word at this moment: a hint.
///
/// # Safety
/// As [`add_at`].
#[inline]
pub(crate) unsafe fn load_at(offset: usize) -> usize {
    // SAFETY: the object has a copy in this row.
    let word = area::word_at(current_row() + offset);
    // Relaxed: a hint; a caller that acts on it compares again.
    word.load(Ordering::Relaxed)
}

/// The current slot's row, or the shared row for a thread without a slot: a hint.
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

/// The sum of a word over all slots, wrapping. It may lack concurrent additions.
///
/// # Safety
/// As [`add_at`].
pub(crate) unsafe fn sum_at(offset: usize, reach: Reach) -> usize {
    let mut sum = 0_usize;
    reach.each(|row| {
        // SAFETY: the same contract; the row is open.
        let word = unsafe { word(row, offset) };
        // Relaxed: the result contains the additions that happened before this call, and need not
        // contain others.
        sum = sum.wrapping_add(word.load(Ordering::Relaxed));
    });
    sum
}

/// Makes a slot's row readable and writable, even if no thread has used the slot. False when memory
/// is out.
pub(crate) fn open_row(slot: usize) -> bool {
    if slot == rows::shared() {
        rows::touch_shared();
    }
    rows::is_open(slot) || {
        let _slots = slots::SLOTS.lock();
        rows::open(slot)
    }
}

/// Adds to the current slot's word at `byte` in an object, wrapping.
///
/// One transaction: no atomic instruction, no lock; never waits. Async-signal-safe.
///
/// # Safety
/// As for all functions on words: `handle` is allocated with an alignment of at least 8. `byte` is
/// a multiple of 8 and at most `size - 8`, and only transactions change these eight bytes.
#[inline]
pub unsafe fn add(handle: Handle, byte: usize, amount: usize) {
    // SAFETY: the same contract.
    unsafe { add_at(handle.offset() + byte, amount) }
}

/// The value of the current slot's word: a hint, possibly outdated when it is returned.
///
/// # Safety
/// As [`add`].
#[inline]
#[must_use]
pub unsafe fn load(handle: Handle, byte: usize) -> usize {
    // SAFETY: the same contract.
    unsafe { load_at(handle.offset() + byte) }
}

/// Replaces the current slot's word by `new` if it holds `expected`; returns whether it did.
///
/// # Safety
/// As [`add`].
#[inline]
#[must_use]
pub unsafe fn cmp_store(handle: Handle, byte: usize, expected: usize, new: usize) -> bool {
    // SAFETY: the same contract.
    unsafe { cmp_store_at(handle.offset() + byte, expected, new) }
}

/// The sum of a word over all slots, wrapping. It may lack concurrent additions.
///
/// # Safety
/// As [`add`].
#[must_use]
pub unsafe fn sum(handle: Handle, byte: usize) -> usize {
    // SAFETY: the same contract.
    unsafe { sum_at(handle.offset() + byte, Reach::Open) }
}

/// The address of an object in a slot's row, even if no thread has used the slot. `None` when there
/// is no such slot or memory is out. The number of slots is the index of the shared row, which is
/// for threads without a slot.
///
/// The memory is valid while the object is allocated. Other threads may run transactions on it, so
/// use atomics unless the program excludes that.
#[must_use]
pub fn address(handle: Handle, slot: usize) -> Option<NonNull<u8>> {
    if area::slot_count() == 0 || slot > rows::shared() {
        return None;
    }
    let address = rows::row(slot) + handle.offset();
    NonNull::new(core::ptr::with_exposed_provenance_mut(address)).filter(|_| open_row(slot))
}
