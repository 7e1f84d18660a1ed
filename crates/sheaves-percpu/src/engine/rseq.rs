//! Transactions as rseq critical sections. The instructions are in `x86_64.rs` and `aarch64.rs`.
//!
//! An rseq critical section is a few instructions that the kernel aborts on preemption, signal or
//! migration: the thread then continues at the abort handler, which starts over. These are the
//! kernel's rules (including those of Linux 6.19), and how they are kept here:
//!
//! 1. A critical section is armed by a store to `rseq_cs`, the only field that is ever written.
//! 2. Slot number, base and cursor are read inside the critical section, each time: a fence aborts
//!    critical sections, it does not change a number that was read before.
//! 3. One store commits, and it is the last instruction.
//! 4. No call, no system call, no access that can fault: table, blocks and sheaves stay mapped for
//!    the life of the process.
//! 5. The signature is immediately before the abort handler.
//! 6. Nothing is pushed: the red zone and the stack pointer are unchanged.
//!
//! A critical section that fails jumps to its end label before the commit; a register gives the
//! outcome. `rseq_cs` is not cleared afterwards; the kernel does that when it finds the instruction
//! pointer outside. A thread without a slot reads -1 or -2 (`cpu_id`) as its slot number. The
//! table's entries for these have the bootstrap block, so `pop` and `push` need no test.
//!
//! Transactions on words anywhere in a row differ in two points. The bootstrap block has only the
//! size of a block, so they leave when they find that block (rule 4). And one that fails jumps to
//! the place where the caller continues, so that no outcome is tested twice. In each of them the
//! only store is the commit. By its invariants, a word is a word in every row.
//!
//! Labels: 2 restarts, after an abort; 3 is the descriptor; from 4 up to, but not including, 5 is
//! the critical section; 6 is the abort handler.

use core::sync::atomic::{AtomicPtr, AtomicUsize};

use super::code;
use super::mode::Access;
use super::rows::{BITS_MAX, Outcome, PackedWord};
use crate::sheaf::{Sheaf, object_in};
use crate::table::{self, BootstrapBlock};
use crate::word::{RowWord, Word};

pub(super) use code::slot;

const _: () = assert!(Sheaf::BYTES == 1024 && sheaves_sys::rseq::RSEQ_CS_OFFSET == 8);

/// The kernel's `struct rseq_cs` (version, flags, start, length, abort handler), and the abort
/// handler behind the signature, which starts over; or jumps to `abort`.
#[doc(hidden)]
#[macro_export]
macro_rules! rseq_descriptor {
    () => {
        $crate::rseq_descriptor!(abort = "2f")
    };
    (abort = $target:literal) => {
        concat!(
            "
        .pushsection __rseq_cs, \"aw\"
        .balign 32
        3: .long 0, 0
        .quad 4f, 5f - 4f, 6f
        .popsection
        .pushsection .text.sheaves_abort, \"ax\"",
            $crate::rseq_abort!($target),
            "
        .popsection"
        )
    };
}

/// Pops the last object of the current slot's sheaf; `None` when it is empty.
///
/// About ten instructions, without an atomic; the only branch tests for the sentinel. Never blocks.
#[inline(always)]
#[must_use]
pub fn pop(access: Access, word: Word) -> Option<usize> {
    pop_of(access, word, table::table())
}

/// [`pop`] of one of two words that follow each other, of which the first is given: of the second
/// one while that is the source, see [`crate::slots::set_source`].
#[inline(always)]
#[must_use]
pub fn pop_source(access: Access, first: Word) -> Option<usize> {
    pop_of(access, first, table::sources())
}

#[inline(always)]
fn pop_of(access: Access, word: Word, table: *const AtomicPtr<BootstrapBlock>) -> Option<usize> {
    let entry: usize;
    // SAFETY: the critical section keeps rules 1-6 of this file. It reads the current slot's cursor
    // and the entry at it (mapped memory), and commits the cursor one entry lower, which gives the
    // object to this thread alone.
    unsafe {
        code::section!(
            pop,
            access,
            table = in(reg) table,
            cursor = out(reg) _,
            scratch = out(reg) entry,
            offset = in(reg) word.offset(),
        );
    }
    object_in(entry)
}

/// Pushes an object to the current slot's sheaf; false when the sheaf is full.
///
/// # Safety
/// `object` is even and the caller owns it; after true it belongs to the word.
#[inline(always)]
#[must_use]
pub unsafe fn push(access: Access, word: Word, object: usize) -> bool {
    let above: usize;
    // SAFETY: the critical section keeps rules 1-6 of this file. The entry above the cursor is
    // free, so writing it before the commit is harmless; the commit gives the object to the slot.
    // The caller owns the object.
    unsafe {
        code::section!(
            push,
            access,
            table = in(reg) table::table(),
            cursor = out(reg) above,
            scratch = out(reg) _,
            object = in(reg) object,
            offset = in(reg) word.offset(),
        );
    }
    above & (Sheaf::BYTES - 1) != 0
}

/// Adds to a word of the current slot, wrapping. Never blocks, no atomic.
#[inline(always)]
pub fn add(access: Access, word: RowWord, amount: usize) -> Outcome {
    // SAFETY: the critical section keeps the rules.
    unsafe { code::row_section!(add, access, word, amount) }
    Outcome::Done
}

/// [`add`] of a constant. Some CPUs (Intel since Golden Cove) then forward the sum from one
/// addition to the next without a delay; with an amount in a register they do not.
#[inline(always)]
pub fn add_const<const AMOUNT: i32>(access: Access, word: RowWord) -> Outcome {
    // SAFETY: the critical section keeps the rules.
    unsafe { code::row_section!(add_const, access, word, AMOUNT) }
    Outcome::Done
}

/// Adds if the sum, as a signed number, is in -2<sup>`BITS`</sup> .. 2<sup>`BITS`</sup>.
/// `BITS` is at most [`BITS_MAX`].
#[inline(always)]
pub fn add_bounded<const BITS: u32>(word: PackedWord, amount: usize) -> Outcome {
    const { assert!(BITS <= BITS_MAX) };
    // SAFETY: the critical section keeps the rules; it leaves before the commit if the sum is out
    // of bounds. By the word's invariants both fields are in one area.
    unsafe { code::row_section!(add_bounded, word, BITS, amount) }
    Outcome::Done
}

/// [`add_bounded`] of a constant, as in [`add_const`].
#[inline(always)]
pub fn add_bounded_const<const BITS: u32, const AMOUNT: i32>(word: PackedWord) -> Outcome {
    const { assert!(BITS <= BITS_MAX) };
    // SAFETY: as in `add_bounded`.
    unsafe { code::row_section!(add_bounded_const, word, BITS, AMOUNT) }
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
    unsafe { code::row_section!(add_guarded, access, word, guard, AMOUNT) }
    Outcome::Done
}

/// Replaces `expected` by `new`, if the word holds `expected`. Acquire and Release, as the exchange
/// of the portable engine.
#[inline(always)]
pub fn cmp_store(access: Access, word: RowWord, expected: usize, new: usize) -> Outcome {
    // SAFETY: the critical section keeps the rules; it leaves before the commit if the word holds
    // another value.
    unsafe { code::row_section!(cmp_store, access, word, expected, new) }
    Outcome::Done
}
