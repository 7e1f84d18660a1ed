//! The current slot, and the transactions of [`super::rows`], in either engine.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::mode::{Access, EngineMode, mode};
use super::rows::{self, CLOSED, Outcome, PackedWord};
use super::{portable, rseq};
use crate::table;
use crate::word::RowWord;

/// The access, for callers that have read a mode other than `NotStarted`.
pub(super) fn access() -> Access {
    // SAFETY: the caller has read the mode, so the engine has started.
    unsafe { Access::of_started() }
}

/// The slot that the thread runs on at this moment: a hint. Negative when it has none yet.
pub fn current_slot() -> i32 {
    match mode() {
        EngineMode::Rseq => rseq::slot(access()),
        EngineMode::Portable => portable::slot(),
        EngineMode::NotStarted => -1,
    }
}

/// The address of the current slot's row: a hint. `None` when the slot has no block.
#[inline]
pub(crate) fn current_row() -> Option<usize> {
    let row = table::current_block(current_slot());
    (row != table::bootstrap()).then_some(row)
}

/// As [`rows::add`].
pub fn add(word: RowWord, amount: usize) -> Outcome {
    let add = |value: usize| Some(value.wrapping_add(amount));
    either(word, |access| rows::add(access, word, amount), add)
}

/// As [`rows::add_bounded`].
pub fn add_bounded<const BITS: u32>(word: RowWord, amount: usize) -> Outcome {
    let add = |value: usize| {
        let sum = value.wrapping_add(amount);
        (sum.wrapping_add(1 << BITS) >> (BITS + 1) == 0).then_some(sum)
    };
    let fast = |word| rows::add_bounded::<BITS>(word, amount);
    either(word, |_| PackedWord::new(word).map_or(Outcome::NoBlock, fast), add)
}

/// As [`rows::add_guarded`].
pub fn add_guarded<const AMOUNT: i32>(guard: &AtomicUsize, word: RowWord) -> Outcome {
    let add = |value: usize| {
        // Acquire pairs with the Release of the thread that clears the guard. A block that was
        // installed after the words were closed is found only after the guard was set, because both
        // happen under the slots lock. So the guard is read after the block.
        let is_open = value != CLOSED && guard.load(Ordering::Acquire) == 0;
        is_open.then(|| value.wrapping_add(AMOUNT as usize))
    };
    either(word, |access| rows::add_guarded::<AMOUNT>(access, guard, word), add)
}

/// As [`rows::cmp_store`].
pub fn cmp_store(word: RowWord, expected: usize, new: usize) -> Outcome {
    let store = |value| (value == expected).then_some(new);
    either(word, |access| rows::cmp_store(access, word, expected, new), store)
}

/// `fast` in the rseq engine; in the portable one the word changes to what `new` returns.
fn either(
    word: RowWord,
    fast: impl FnOnce(Access) -> Outcome,
    new: impl Fn(usize) -> Option<usize>,
) -> Outcome {
    match mode() {
        EngineMode::Rseq => fast(access()),
        EngineMode::Portable => current_row().map_or(Outcome::NoBlock, |row| {
            // AcqRel pairs with itself and with check-outs and check-ins, on the same word:
            // transactions on a slot are ordered, in this engine also where threads share it.
            // Relaxed on failure: the value is only used for the next attempt.
            match word.in_row(row).fetch_update(Ordering::AcqRel, Ordering::Relaxed, new) {
                Ok(_) => Outcome::Done,
                Err(_) => Outcome::Declined,
            }
        }),
        EngineMode::NotStarted => Outcome::NoBlock,
    }
}
