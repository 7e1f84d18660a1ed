//! Transactions on words anywhere in a row, as rseq critical sections. The instructions are in
//! `rows_x86_64.rs` and `rows_aarch64.rs`.
//!
//! The rules are those of `rseq.rs`, with two differences. The bootstrap block has only the size of
//! a block, so every critical section here leaves when it finds that block (rule 4). And one that
//! fails jumps to the place where the caller continues, so that no outcome is tested twice.
//!
//! In each of them the only store is the commit. By its invariants, a word is a word in every row.

#[cfg_attr(target_arch = "aarch64", path = "rows_aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "rows_x86_64.rs")]
mod code;

use core::sync::atomic::AtomicUsize;

use super::mode::Access;
use super::rows::{BITS_MAX, Outcome, PackedWord};
use crate::word::RowWord;

/// Adds to a word of the current slot, wrapping. Never blocks, no atomic.
#[inline(always)]
pub fn add(access: Access, word: RowWord, amount: usize) -> Outcome {
    // SAFETY: the critical section keeps the rules.
    unsafe { code::section!(add, access, word, amount) }
    Outcome::Done
}

/// [`add`] of a constant. Some CPUs (Intel since Golden Cove) then forward the sum from one
/// addition to the next without a delay; with an amount in a register they do not.
#[inline(always)]
pub fn add_const<const AMOUNT: i32>(access: Access, word: RowWord) -> Outcome {
    // SAFETY: the critical section keeps the rules.
    unsafe { code::section!(add_const, access, word, AMOUNT) }
    Outcome::Done
}

/// Adds if the sum, as a signed number, is in -2<sup>`BITS`</sup> .. 2<sup>`BITS`</sup>.
/// `BITS` is at most [`BITS_MAX`].
#[inline(always)]
pub fn add_bounded<const BITS: u32>(word: PackedWord, amount: usize) -> Outcome {
    const { assert!(BITS <= BITS_MAX) };
    // SAFETY: the critical section keeps the rules; it leaves before the commit if the sum is out
    // of bounds. By the word's invariants both fields are in one area.
    unsafe { code::section!(add_bounded, word, BITS, amount) }
    Outcome::Done
}

/// [`add_bounded`] of a constant, as in [`add_const`].
#[inline(always)]
pub fn add_bounded_const<const BITS: u32, const AMOUNT: i32>(word: PackedWord) -> Outcome {
    const { assert!(BITS <= BITS_MAX) };
    // SAFETY: as in `add_bounded`.
    unsafe { code::section!(add_bounded_const, word, BITS, AMOUNT) }
    Outcome::Done
}

/// Adds if the guard is 0, wrapping.
#[inline(always)]
pub fn add_guarded<const AMOUNT: i32>(
    access: Access,
    guard: &AtomicUsize,
    word: RowWord,
) -> Outcome {
    // SAFETY: the critical section keeps the rules; it leaves before the commit if the guard is not
    // 0. The guard is borrowed, so it stays valid.
    unsafe { code::section!(add_guarded, access, word, guard, AMOUNT) }
    Outcome::Done
}

/// Replaces `expected` by `new`, if the word holds `expected`. Acquire and Release, as the exchange
/// of the portable engine.
#[inline(always)]
pub fn cmp_store(access: Access, word: RowWord, expected: usize, new: usize) -> Outcome {
    // SAFETY: the critical section keeps the rules; it leaves before the commit if the word holds
    // another value.
    unsafe { code::section!(cmp_store, access, word, expected, new) }
    Outcome::Done
}
