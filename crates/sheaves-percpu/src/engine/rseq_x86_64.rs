//! Transactions as rseq critical sections on x86-64.
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
//! All critical sections have `inout`/`out` registers and a value that gives the outcome. One that
//! fails jumps to its end label before the commit. `rseq_cs` is not cleared afterwards; the kernel
//! does that when it finds the instruction pointer outside.
//!
//! The caller passes an [`Access`]: the offsets of the slot number and of `rseq_cs` from the thread
//! pointer. They are the same in every thread and constant after the start, so that a compiler may
//! keep them in registers. A thread without a slot reads -1 or -2 (`cpu_id`) as its slot number.
//! The table's entries for these have the bootstrap block, so "is this thread registered" needs no
//! test.

use core::arch::asm;

use super::access::Access;
use crate::sheaf::{Cursor, Sheaf, object_in};
use crate::table;
use crate::word::Word;
use crate::{rseq_arm, rseq_descriptor};

const _: () = assert!(Sheaf::BYTES == 1024);

/// A critical section on a word. `$body` runs with the word's address in `{word}` and ends with the
/// only committing store; it leaves early by a jump to label 5.
///
/// The word is addressed by one register alone. Some CPUs (Intel since Golden Cove) then forward a
/// stored value to a following load by the form of the instructions, so the cursor passes from one
/// transaction to the next without a trip through memory. With an index in the address they do not.
/// In a loop of an allocation and a free this saves a fourth of the time.
macro_rules! section {
    ($access:ident, [$($body:literal),+ $(,)?], $($operands:tt)*) => {
        asm!(
            rseq_descriptor!(),
            "2:",
            rseq_arm!("{scratch}", rseq_cs = "{rseq_cs}", "{cursor}" = "{slot}"),
            "mov {word}, qword ptr [{table} + 8*{cursor}]",
            "add {word}, {offset}",
            $($body,)+
            "5:",
            rseq_cs = in(reg) $access.rseq_cs,
            slot = in(reg) $access.slot,
            table = in(reg) table::table(),
            word = out(reg) _,
            $($operands)*
            options(nostack),
        )
    };
}

/// Pops the last object of the current slot's sheaf; `None` when it is empty.
///
/// About ten instructions, without an atomic; the only branch tests for the sentinel. Never blocks.
#[inline(always)]
#[must_use]
pub fn pop(access: Access, word: Word) -> Option<usize> {
    let entry: usize;
    // SAFETY: the critical section keeps rules 1-6 of this file. It reads the current slot's cursor
    // and the entry at it (mapped memory), and commits the cursor one entry lower, which gives the
    // object to this thread alone.
    unsafe {
        section!(
            access,
            [
                "mov {cursor}, qword ptr [{word}]",
                "mov {scratch}, qword ptr [{cursor}]",
                "test {scratch:l}, 1",
                "jnz 5f",
                "sub {cursor}, 8",
                "mov qword ptr [{word}], {cursor}",
            ],
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
        section!(
            access,
            [
                "mov {cursor}, qword ptr [{word}]",
                "add {cursor}, 8",
                "test {cursor:e}, 1023",
                "jz 5f",
                "mov qword ptr [{cursor}], {object}",
                "mov qword ptr [{word}], {cursor}",
            ],
            cursor = out(reg) above,
            scratch = out(reg) _,
            object = in(reg) object,
            offset = in(reg) word.offset(),
        );
    }
    above & (Sheaf::BYTES - 1) != 0
}

pub(super) unsafe fn cmp_store(access: Access, word: Word, expected: Cursor, new: Cursor) -> bool {
    let found: usize;
    // SAFETY: the critical section keeps rules 1-6 of this file. It stores only if the word holds
    // `expected`, which is never the bootstrap cursor, so read-only memory is not written.
    unsafe {
        section!(
            access,
            [
                "mov {cursor}, qword ptr [{word}]",
                "cmp {cursor}, {expected}",
                "jne 5f",
                "mov qword ptr [{word}], {new}",
            ],
            cursor = out(reg) found,
            scratch = out(reg) _,
            expected = in(reg) expected.bits(),
            new = in(reg) new.bits(),
            offset = in(reg) word.offset(),
        );
    }
    found == expected.bits()
}

/// The calling thread's slot number at this moment; negative when the thread is not registered.
pub(super) fn slot(access: Access) -> i32 {
    let slot: i64;
    // SAFETY: reads the thread's own area; the value is a hint.
    unsafe {
        asm!(
            "movsxd {slot}, dword ptr fs:[{offset}]",
            offset = in(reg) access.slot,
            slot = out(reg) slot,
            options(nostack, preserves_flags, readonly),
        );
    }
    i32::try_from(slot).unwrap_or(-1)
}
