//! Transactions as rseq critical sections. The instructions are in `rseq_x86_64.rs` and
//! `rseq_aarch64.rs`.
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
//! table's entries for these have the bootstrap block, so it needs no test.

#[cfg_attr(target_arch = "aarch64", path = "rseq_aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "rseq_x86_64.rs")]
mod code;

use core::sync::atomic::AtomicPtr;

use super::mode::Access;
use crate::sheaf::{Sheaf, object_in};
use crate::table::{self, BootstrapBlock};
use crate::word::Word;

pub(super) use code::slot;

const _: () = assert!(Sheaf::BYTES == 1024);

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
