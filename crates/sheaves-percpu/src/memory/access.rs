//! Access to objects: transactions on their words in the current slot's row, and sums over all
//! rows.
//!
//! A transaction here does not need a slot. When the current slot has no block and cannot
//! get one at once, the shared row is changed by an atomic instruction.

use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use crate::engine::rows::{self as transactions, Outcome, slow};
use crate::engine::{Access, current_row};
use crate::memory::Handle;
use crate::rows;
use crate::slots::{self, Attached};
use crate::word::RowWord;

/// How often a transaction looks for a block before it uses the shared row.
const ATTEMPTS: u32 = 64;

/// The shared row, which is for threads without a slot. It is open since the first allocation.
fn shared_row() -> usize {
    rows::touch_shared();
    rows::row(rows::shared())
}

/// Repeats an attempt until the thread has a slot with a block; `None` when it gets none.
#[cold]
fn until_block<R>(attempt: impl Fn() -> Option<R>) -> Option<R> {
    for _ in 0..ATTEMPTS {
        let found = attempt();
        if found.is_some() {
            return found;
        }
        if slots::attach_at_once() == Attached::No {
            // Registration is refused, or a drain has detached the blocks for a moment.
            core::hint::spin_loop();
        }
    }
    None
}

/// Repeats a transaction until it is done or declines; `None` when there is no block for it.
pub(crate) fn retry(transaction: impl Fn() -> Outcome) -> Option<Outcome> {
    until_block(|| Some(transaction()).filter(|outcome| *outcome != Outcome::NoBlock))
}

/// The access of an object's owner.
#[inline(always)]
fn started() -> Access {
    // SAFETY: an object exists, so the engine has started.
    unsafe { Access::of_started() }
}

/// Adds to the current slot's word, wrapping.
#[inline(always)]
pub(crate) fn add_to(word: RowWord, amount: usize) {
    if transactions::add(started(), word, amount) != Outcome::Done {
        add_slow(word, amount);
    }
}

/// [`add_to`] with a constant (see [`transactions::add_const`]) and an access that the caller has.
#[inline(always)]
pub(crate) fn add_const_by<const AMOUNT: i32>(access: Access, word: RowWord) {
    if transactions::add_const::<AMOUNT>(access, word) != Outcome::Done {
        add_slow(word, AMOUNT as usize);
    }
}

#[cold]
#[inline(never)]
fn add_slow(word: RowWord, amount: usize) {
    if retry(|| slow::add(word, amount)).is_none() {
        // Relaxed: an integer that publishes no other memory.
        word.in_row(shared_row()).fetch_add(amount, Ordering::Relaxed);
    }
}

/// Replaces the current slot's word if it holds `expected`.
#[inline]
pub(crate) fn cmp_store_in(word: RowWord, expected: usize, new: usize) -> bool {
    match transactions::cmp_store(started(), word, expected, new) {
        Outcome::Done => true,
        Outcome::Declined => false,
        Outcome::NoBlock => cmp_store_slow(word, expected, new),
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

/// The current slot's word at this moment: a hint.
#[inline]
pub(crate) fn load_from(word: RowWord) -> usize {
    // Relaxed: a hint; a caller that acts on it compares again.
    word.in_row(row_or_shared()).load(Ordering::Relaxed)
}

/// The current slot's row, or the shared row for a thread without a slot: a hint.
#[inline]
pub(crate) fn row_or_shared() -> usize {
    current_row().unwrap_or_else(row_or_shared_slow)
}

#[cold]
#[inline(never)]
fn row_or_shared_slow() -> usize {
    until_block(current_row).unwrap_or_else(shared_row)
}

/// The sum of a word over all slots, wrapping. It may lack concurrent additions.
pub(crate) fn sum_of(word: RowWord) -> usize {
    // Relaxed: the result contains the additions that happened before this call, and need not
    // contain others.
    let value = |row| word.in_row(rows::row(row)).load(Ordering::Relaxed);
    rows::written().map(value).fold(0, usize::wrapping_add)
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

/// # Safety
/// The contract of [`add`].
#[inline(always)]
unsafe fn word_of(handle: Handle, byte: usize) -> RowWord {
    // SAFETY: the same contract.
    unsafe { RowWord::new(handle.offset() + byte) }
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
    add_to(unsafe { word_of(handle, byte) }, amount);
}

/// The value of the current slot's word: a hint, possibly outdated when it is returned.
///
/// # Safety
/// As [`add`].
#[inline]
#[must_use]
pub unsafe fn load(handle: Handle, byte: usize) -> usize {
    // SAFETY: the same contract.
    load_from(unsafe { word_of(handle, byte) })
}

/// Replaces the current slot's word by `new` if it holds `expected`; returns whether it did.
///
/// # Safety
/// As [`add`].
#[inline]
#[must_use]
pub unsafe fn cmp_store(handle: Handle, byte: usize, expected: usize, new: usize) -> bool {
    // SAFETY: the same contract.
    cmp_store_in(unsafe { word_of(handle, byte) }, expected, new)
}

/// The sum of a word over all slots, wrapping. It may lack concurrent additions.
///
/// # Safety
/// As [`add`].
#[must_use]
pub unsafe fn sum(handle: Handle, byte: usize) -> usize {
    // SAFETY: the same contract.
    sum_of(unsafe { word_of(handle, byte) })
}

/// The address of an object in a slot's row, even if no thread has used the slot. `None` when there
/// is no such slot or memory is out. With the number of slots as `slot`, the result is in the row
/// that threads without a slot share.
///
/// The memory is valid while the object is allocated. Other threads may run transactions on it, so
/// use atomics unless the program excludes that.
#[must_use]
pub fn address(handle: Handle, slot: usize) -> Option<NonNull<u8>> {
    if rows::slot_count() == 0 || slot > rows::shared() {
        return None;
    }
    let address = rows::row(slot) + handle.offset();
    NonNull::new(core::ptr::with_exposed_provenance_mut(address)).filter(|_| open_row(slot))
}
