//! Transactions, and the choice of the engine that runs them.
//!
//! | transaction | effect on the word of the current slot | fails |
//! |---|---|---|
//! | [`pop`] | returns the object at the cursor and moves the cursor down | empty: `None` |
//! | [`push`] | writes the object above the cursor and moves the cursor up | full: false |
//! | [`load`] | none | never |
//! | [`cmp_store`] | stores the new value if the word holds the expected one | otherwise: false |
//!
//! `pop` and `push` are inlined and work only in the rseq engine. In all other cases (the portable
//! engine, an unregistered thread, a slot without a block) they find the bootstrap block and fail,
//! and their caller goes on with [`crate::slots::attach`], then [`pop_slow`] or [`push_slow`].
//!
//! Ordering: transactions on one slot are totally ordered, and each sees the stores of the earlier
//! ones. With rseq the kernel's scheduling orders them; in the portable engine the exchange of the
//! word does.

#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg(all(any(target_arch = "aarch64", target_arch = "x86_64"), not(miri)))]
mod code;
#[cfg(all(any(target_arch = "aarch64", target_arch = "x86_64"), not(miri)))]
mod entry;
mod frame;
mod mode;
mod portable;
pub mod rows;
pub mod rows_slow;
#[cfg_attr(
    not(all(any(target_arch = "aarch64", target_arch = "x86_64"), not(miri))),
    path = "no_rseq.rs"
)]
mod rseq;

pub(crate) use mode::publish;
pub(crate) use portable::{check_in_of_others, cursor_of, take as take_portable};
pub(crate) use rows_slow::current_row;

pub use mode::{Access, EngineMode, Facts, SlotKind, facts, mode};
pub use rows_slow::current_slot;
pub use rseq::{pop, pop_source, push};

use core::sync::atomic::Ordering;

use crate::sheaf::Cursor;
use crate::table;
use crate::word::{RowWord, Word};

/// [`pop`] for the slow path, in both engines.
#[must_use]
pub fn pop_slow(word: Word) -> Option<usize> {
    match mode() {
        EngineMode::Rseq => pop(rows_slow::access(), word),
        EngineMode::Portable => portable::pop(word),
        EngineMode::NotStarted => None,
    }
}

/// [`push`] for the slow path, in both engines.
///
/// # Safety
/// As [`push`].
#[must_use]
pub unsafe fn push_slow(word: Word, object: usize) -> bool {
    match mode() {
        // SAFETY: the same contract.
        EngineMode::Rseq => unsafe { rseq::push(rows_slow::access(), word, object) },
        // SAFETY: the same contract.
        EngineMode::Portable => unsafe { portable::push(word, object) },
        EngineMode::NotStarted => false,
    }
}

/// The value of the current slot's word: a hint, possibly outdated when it is returned.
///
/// [`Cursor::BOOTSTRAP`] when the slot has no block, and before the start.
pub fn load(word: Word) -> Cursor {
    match mode() {
        EngineMode::Rseq => {}
        EngineMode::Portable => return portable::load(word),
        EngineMode::NotStarted => return Cursor::BOOTSTRAP,
    }
    let block = table::current_block(current_slot());
    // Relaxed: a hint; the transaction that uses it compares again.
    Cursor::of_word(word.in_block(block).load(Ordering::Relaxed))
}

/// Replaces `expected` by `new` in the current slot's word; false when it holds another value.
///
/// A cursor identifies its sheaf and the number of objects in it, and a sheaf is in only one place.
/// So a successful exchange gives `expected` to the caller and `new` to the slot, even if the
/// thread has changed slots since it read `expected`.
///
/// # Safety
/// `expected` is not [`Cursor::BOOTSTRAP`]. The caller owns the sheaf of `new`, unless `new` is
/// [`Cursor::VACANT`].
#[must_use]
pub unsafe fn cmp_store(word: Word, expected: Cursor, new: Cursor) -> bool {
    // SAFETY: a block is the head of its row.
    let word = unsafe { RowWord::new(word.offset()) };
    rows_slow::cmp_store(word, expected.bits(), new.bits()) == rows::Outcome::Done
}
