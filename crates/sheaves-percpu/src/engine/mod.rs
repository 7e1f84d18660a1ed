//! The vocabulary of transactions, and the choice of the engine that carries them out.
//!
//! | transaction | effect on the word of the current slot | refuses |
//! |---|---|---|
//! | [`pop`] | cursor back by one entry, that entry is the result | empty: an odd result |
//! | [`push`] | entry above the cursor = object, cursor forward by one | full: false |
//! | [`load`] | none | never |
//! | [`cmp_store`] | new value if it holds the expected one | it does not: false |
//!
//! `pop` and `push` are inlined and belong to the rseq engine alone; the [`Access`] that they need
//! proves that the engine has started. Everywhere else (the portable engine, a thread that is not
//! registered, a slot without a block) they meet the bootstrap block, refuse, and leave the rest
//! to their caller's slow path: [`crate::slots::attach`], then [`pop_slow`] and [`push_slow`].
//!
//! Ordering: transactions of one slot are totally ordered and each sees the stores of the ones
//! before. With rseq the kernel's scheduling orders them; in the portable engine the exchange of
//! the word does.

mod access;
mod choice;
#[cfg(target_arch = "x86_64")]
mod entry_x86_64;
mod portable;
#[doc(hidden)]
pub mod rows;
#[cfg(target_arch = "x86_64")]
mod rseq_x86_64;

pub(crate) use portable::{cursor_of, freeze, take as take_portable, thaw};

pub use access::{Access, PUBLISHED, Published};
pub use choice::{Facts, Mode, SlotKind, facts, mode, start};

#[cfg(target_arch = "x86_64")]
use rseq_x86_64 as fast;

/// Where there is no rseq engine every fast path refuses.
#[cfg(not(target_arch = "x86_64"))]
mod fast {
    use super::Access;
    use crate::area::Word;

    pub(crate) fn pop(_: Access, _: Word) -> usize {
        1
    }
    pub(crate) unsafe fn push(_: Access, _: Word, _: usize) -> bool {
        false
    }
    pub(crate) fn slot(_: Access) -> i32 {
        -1
    }
    pub(crate) unsafe fn cmp_store(_: Access, _: Word, _: usize, _: usize) -> bool {
        false
    }
}

use crate::area::Word;

/// Takes the last object of the current slot's sheaf; an odd number when there is none.
///
/// About ten instructions, no atomic, no branch but the test for the sentinel. Never blocks.
#[inline(always)]
#[must_use]
pub fn pop(access: Access, word: Word) -> usize {
    fast::pop(access, word)
}

/// Puts an object on the current slot's sheaf; false when it is full.
///
/// # Safety
/// `object` is even and the caller owns it; after true it belongs to the word.
#[inline(always)]
#[must_use]
pub unsafe fn push(access: Access, word: Word, object: usize) -> bool {
    // SAFETY: the same contract.
    unsafe { fast::push(access, word, object) }
}

/// [`pop`] for the slow path: also on the portable engine.
#[must_use]
pub fn pop_slow(word: Word) -> usize {
    match mode() {
        Mode::Rseq => fast::pop(Access::get(), word),
        Mode::Portable => portable::pop(word),
        Mode::NotStarted => 1,
    }
}

/// [`push`] for the slow path: also on the portable engine.
///
/// # Safety
/// As [`push`].
#[must_use]
pub unsafe fn push_slow(word: Word, object: usize) -> bool {
    match mode() {
        // SAFETY: the same contract.
        Mode::Rseq => unsafe { fast::push(Access::get(), word, object) },
        // SAFETY: the same contract.
        Mode::Portable => unsafe { portable::push(word, object) },
        Mode::NotStarted => false,
    }
}

/// What the word of the current slot holds now: a hint, old as soon as it is returned.
///
/// [`crate::sheaf::BOOTSTRAP`] when the slot has no block.
#[must_use]
pub fn load(word: Word) -> usize {
    match mode() {
        // Relaxed: a hint; the transaction that uses it compares again.
        Mode::Rseq => {
            crate::area::word(crate::area::current_block(fast::slot(Access::get())), word)
                .load(core::sync::atomic::Ordering::Relaxed)
        }
        Mode::Portable => portable::load(word),
        Mode::NotStarted => crate::sheaf::BOOTSTRAP.get(),
    }
}

/// Replaces `expected` by `new` in the word of the current slot; false when it holds another
/// value.
///
/// A cursor names its sheaf and the number of objects in it, and a sheaf is in one place only.
/// So a successful exchange hands `expected` to the caller and `new` to the slot, whatever the
/// thread went through between reading `expected` and now, a change of slot included.
///
/// # Safety
/// `expected` is not [`crate::sheaf::BOOTSTRAP`]. Where the word holds cursors, `new` is one and
/// the caller owns its sheaf.
#[must_use]
pub unsafe fn cmp_store(word: Word, expected: usize, new: usize) -> bool {
    match mode() {
        // SAFETY: the same contract.
        Mode::Rseq => unsafe { fast::cmp_store(Access::get(), word, expected, new) },
        Mode::Portable => portable::cmp_store(word, expected, new),
        Mode::NotStarted => false,
    }
}

/// The slot on which the thread runs now: a hint. Negative when it has none yet.
#[must_use]
pub fn current_slot() -> i32 {
    match mode() {
        Mode::Rseq => fast::slot(Access::get()),
        Mode::Portable => portable::slot(),
        Mode::NotStarted => -1,
    }
}
