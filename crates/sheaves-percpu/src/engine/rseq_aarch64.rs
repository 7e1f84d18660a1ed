//! Transactions as rseq critical sections on aarch64.
//!
//! The kernel's rules are those at the head of `rseq_x86_64.rs`, with the same numbers, and so are
//! the operands and outcomes. A register holds the thread pointer, because loads and stores have no
//! segment to be relative to. Each section reads it again: a coroutine may have moved to another
//! thread since the last one.
//!
//! Ordering on this weakly ordered architecture. `a -> b`: b's address is computed from a.
//!
//! - Table entry -> word -> entry of the sheaf. An address dependency orders these loads, and the
//!   stores of the section after them. They meet the Release of [`table::set_block`].
//! - Transactions on a slot follow one another on one CPU, whose program order they are in, or the
//!   kernel has moved the slot number (`mm_cid`) to another CPU, by atomic operations with full
//!   barriers. So the entry that `push` writes needs no Release before the cursor.
//! - A drain reads words and entries after a membarrier, which is a full barrier on each CPU after
//!   the last section that could commit there.
//! - Whole sheaves pass between CPUs by `cmp_store`, which is Acquire for the one that is taken and
//!   Release for the one that is left. The kernel's barriers suffice for these, too; exchanges are
//!   rare, and this needs no argument about the scheduler.

use core::arch::asm;

use super::access::Access;
use crate::sheaf::{Cursor, Sheaf, object_in};
use crate::table;
use crate::word::Word;
use crate::{rseq_arm, rseq_descriptor};

const _: () = assert!(Sheaf::BYTES == 1024);

/// A critical section on a word. `$body` runs with the word's address in `{word}` and ends with the
/// only committing store; it leaves early by a jump to label 5.
macro_rules! section {
    ($access:ident, [$($body:literal),+ $(,)?], $($operands:tt)*) => {
        asm!(
            rseq_descriptor!(),
            "mrs {thread}, tpidr_el0",
            "2:",
            rseq_arm!(
                "{scratch}",
                thread = "{thread}",
                rseq_cs = "{rseq_cs}",
                "{cursor}" = "{slot}"
            ),
            "ldr {word}, [{table}, {cursor}, lsl #3]",
            "add {word}, {word}, {offset}",
            $($body,)+
            "5:",
            thread = out(reg) _,
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
    // SAFETY: the critical section keeps rules 1-6 of `rseq_x86_64.rs`. It reads the current slot's
    // cursor and the entry at it (mapped memory), and commits the cursor one entry lower, which
    // gives the object to this thread alone.
    unsafe {
        section!(
            access,
            [
                "ldr {cursor}, [{word}]",
                "ldr {scratch}, [{cursor}]",
                "tbnz {scratch}, #0, 5f",
                "sub {cursor}, {cursor}, #8",
                "str {cursor}, [{word}]",
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
    // SAFETY: the critical section keeps rules 1-6 of `rseq_x86_64.rs`. The entry above the cursor
    // is free, so writing it before the commit is harmless; the commit gives the object to the
    // slot. The caller owns the object.
    unsafe {
        section!(
            access,
            [
                "ldr {cursor}, [{word}]",
                "add {cursor}, {cursor}, #8",
                "tst {cursor}, #1023",
                "b.eq 5f",
                "str {object}, [{cursor}]",
                "str {cursor}, [{word}]",
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
    // SAFETY: the critical section keeps rules 1-6 of `rseq_x86_64.rs`. It stores only if the word
    // holds `expected`, which is never the bootstrap cursor, so read-only memory is not written.
    unsafe {
        section!(
            access,
            [
                "ldar {cursor}, [{word}]",
                "cmp {cursor}, {expected}",
                "b.ne 5f",
                "stlr {new}, [{word}]",
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
            "mrs {slot}, tpidr_el0",
            "ldrsw {slot}, [{slot}, {offset}]",
            offset = in(reg) access.slot,
            slot = out(reg) slot,
            options(nostack, preserves_flags, readonly),
        );
    }
    i32::try_from(slot).unwrap_or(-1)
}
