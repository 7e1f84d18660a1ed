//! The transactions on words anywhere in a row, each with its own critical section.
//!
//! They work on any offset; here it is that of the word that these tests compare.

use core::sync::atomic::AtomicUsize;

use sheaves_percpu::Access;
use sheaves_percpu::internal::rows::{Outcome, PackedWord, slow};
use sheaves_percpu::internal::{RowWord, Word, rows};

use super::child::{ADDED, ADDED_TOO, EXPECTED, NEW, NEW_TOO};

/// Bounds that all additions of these tests keep.
const BITS: u32 = 30;

/// The transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InRow {
    Add,
    AddBounded,
    AddConst,
    AddBoundedConst,
    AddGuarded,
    CmpStore,
}

impl InRow {
    /// The value of the word before a transaction that has to fail.
    pub(crate) fn shut_value(self, unexpected: usize) -> usize {
        match self {
            InRow::AddBounded | InRow::AddBoundedConst => isize::MAX.cast_unsigned(),
            // The guard makes it fail.
            InRow::Add | InRow::AddConst | InRow::AddGuarded => EXPECTED,
            InRow::CmpStore => unexpected,
        }
    }
}

fn in_rows(word: Word) -> RowWord {
    // SAFETY: the word exists in every row and is changed by transactions only.
    unsafe { RowWord::new(word.offset()) }
}

#[inline(never)]
fn add(word: Word, amount: usize) -> Outcome {
    rows::add(Access::get(), in_rows(word), amount)
}

#[inline(never)]
fn add_bounded(word: Word, amount: usize) -> Outcome {
    let word = PackedWord::new(in_rows(word)).expect("a form on this engine");
    rows::add_bounded::<BITS>(word, amount)
}

#[inline(never)]
fn add_guarded(word: Word, guard: &AtomicUsize) -> Outcome {
    rows::add_guarded::<{ ADDED as i32 }>(Access::get(), guard, in_rows(word))
}

#[inline(never)]
fn add_const(word: Word) -> Outcome {
    rows::add_const::<{ ADDED as i32 }>(Access::get(), in_rows(word))
}

#[inline(never)]
fn add_bounded_const(word: Word) -> Outcome {
    let word = PackedWord::new(in_rows(word)).expect("a form on this engine");
    rows::add_bounded_const::<BITS, { ADDED as i32 }>(word)
}

#[inline(never)]
fn cmp_store(word: Word, expected: usize, new: usize) -> Outcome {
    rows::cmp_store(Access::get(), in_rows(word), expected, new)
}

fn happened(outcome: Outcome) -> usize {
    usize::from(outcome == Outcome::Done)
}

/// Performs the transaction that is traced.
pub(crate) fn perform(transaction: InRow, word: Word, guard: &AtomicUsize) -> usize {
    happened(match transaction {
        InRow::Add => add(word, ADDED),
        InRow::AddBounded => add_bounded(word, ADDED),
        InRow::AddConst => add_const(word),
        InRow::AddBoundedConst => add_bounded_const(word),
        InRow::AddGuarded => add_guarded(word, guard),
        InRow::CmpStore => cmp_store(word, EXPECTED, NEW),
    })
}

/// Performs a transaction of the same kind in a signal handler.
pub(crate) fn interfere(transaction: InRow, word: Word, guard: &AtomicUsize) -> usize {
    let word = in_rows(word);
    happened(match transaction {
        InRow::Add | InRow::AddConst => slow::add(word, ADDED_TOO),
        InRow::AddBounded | InRow::AddBoundedConst => slow::add_bounded::<BITS>(word, ADDED_TOO),
        InRow::AddGuarded => slow::add_guarded::<{ ADDED_TOO as i32 }>(guard, word),
        InRow::CmpStore => slow::cmp_store(word, EXPECTED, NEW_TOO),
    })
}
