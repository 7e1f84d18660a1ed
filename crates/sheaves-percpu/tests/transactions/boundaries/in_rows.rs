//! The transactions on words anywhere in a row, each with its own critical section.
//!
//! They work on any offset; here it is that of the word that these tests compare.

use core::sync::atomic::AtomicUsize;

use sheaves_percpu::engine::rows::{self, Near, Outcome, slow};
use sheaves_percpu::{Access, Word};

use super::child::{ADDED, ADDED_TOO, EXPECTED, NEW, NEW_TOO};

/// Bounds that all additions of these tests keep.
const BITS: u32 = 30;

/// The transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InRow {
    Add,
    AddBounded,
    AddNear,
    AddConst,
    AddNearConst,
    AddGuarded,
    CmpStore,
}

impl InRow {
    /// The value of the word before a transaction that has to fail.
    pub(crate) fn shut_value(self, unexpected: usize) -> usize {
        match self {
            InRow::AddBounded | InRow::AddNear | InRow::AddNearConst => isize::MAX.cast_unsigned(),
            // The guard makes it fail.
            InRow::Add | InRow::AddConst | InRow::AddGuarded => EXPECTED,
            InRow::CmpStore => unexpected,
        }
    }
}

#[inline(never)]
fn add(word: Word, amount: usize) -> Outcome {
    // SAFETY: the word exists in every row and is changed by transactions only.
    unsafe { rows::add(Access::get(), word.offset(), amount) }
}

#[inline(never)]
fn add_bounded(word: Word, amount: usize) -> Outcome {
    // SAFETY: as above.
    unsafe { rows::add_bounded::<BITS>(Access::get(), word.offset(), amount) }
}

#[inline(never)]
fn add_near(word: Word, amount: usize) -> Outcome {
    let place = Near::new(word.offset()).expect("a place on this engine");
    // SAFETY: as above.
    unsafe { rows::add_near::<BITS>(place, amount) }
}

#[inline(never)]
fn add_guarded(word: Word, guard: &AtomicUsize) -> Outcome {
    // SAFETY: as above.
    unsafe { rows::add_guarded::<{ ADDED as i32 }>(Access::get(), guard, word.offset()) }
}

#[inline(never)]
fn add_const(word: Word) -> Outcome {
    // SAFETY: as above.
    unsafe { rows::add_const::<{ ADDED as i32 }>(Access::get(), word.offset()) }
}

#[inline(never)]
fn add_near_const(word: Word) -> Outcome {
    let place = Near::new(word.offset()).expect("a place on this engine");
    // SAFETY: as above.
    unsafe { rows::add_near_const::<BITS, { ADDED as i32 }>(place) }
}

#[inline(never)]
fn cmp_store(word: Word, expected: usize, new: usize) -> Outcome {
    // SAFETY: as above.
    unsafe { rows::cmp_store(Access::get(), word.offset(), expected, new) }
}

fn happened(outcome: Outcome) -> usize {
    usize::from(outcome == Outcome::Done)
}

/// Performs the transaction that is traced.
pub(crate) fn perform(transaction: InRow, word: Word, guard: &AtomicUsize) -> usize {
    happened(match transaction {
        InRow::Add => add(word, ADDED),
        InRow::AddBounded => add_bounded(word, ADDED),
        InRow::AddNear => add_near(word, ADDED),
        InRow::AddConst => add_const(word),
        InRow::AddNearConst => add_near_const(word),
        InRow::AddGuarded => add_guarded(word, guard),
        InRow::CmpStore => cmp_store(word, EXPECTED, NEW),
    })
}

/// Performs a transaction of the same kind in a signal handler.
pub(crate) fn interfere(transaction: InRow, word: Word, guard: &AtomicUsize) -> usize {
    let offset = word.offset();
    happened(match transaction {
        // SAFETY: as above.
        InRow::Add | InRow::AddConst => unsafe { slow::add(offset, ADDED_TOO) },
        // SAFETY: as above.
        InRow::AddBounded | InRow::AddNear | InRow::AddNearConst => unsafe {
            slow::add_bounded::<BITS>(offset, ADDED_TOO)
        },
        // SAFETY: as above.
        InRow::AddGuarded => unsafe { slow::add_guarded::<{ ADDED_TOO as i32 }>(guard, offset) },
        // SAFETY: as above.
        InRow::CmpStore => unsafe { slow::cmp_store(offset, EXPECTED, NEW_TOO) },
    })
}
