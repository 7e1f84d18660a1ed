//! The instructions of transactions on aarch64.
//!
//! A register holds the thread pointer, because loads and stores have no segment to be relative to.
//! Each section reads it again: a coroutine may have moved to another thread since the last one.
//!
//! Ordering on this weakly ordered architecture. `a -> b`: b's address is computed from a.
//!
//! - Table entry -> word -> entry of the sheaf. An address dependency orders these loads, and the
//!   stores of the section after them. They meet the Release of [`crate::table::set_block`].
//! - Transactions on a slot follow one another on one CPU, whose program order they are in, or the
//!   kernel has moved the slot number (`mm_cid`) to another CPU, by atomic operations with full
//!   barriers. So the entry that `push` writes needs no Release before the cursor.
//! - A drain reads words and entries after a membarrier, which is a full barrier on each CPU after
//!   the last section that could commit there.
//! - Whole sheaves pass between CPUs by `cmp_store` of `rows_aarch64.rs`, which is Acquire for the
//!   one that is taken and Release for the one that is left. The kernel's barriers suffice for
//!   these, too; exchanges are rare, and this needs no argument about the scheduler.

use core::arch::asm;

use crate::engine::mode::Access;

/// What a critical section does after it has found the word: `$name` is its function in `rseq.rs`.
/// It ends with the only committing store, and leaves early by a jump to label 5.
macro_rules! body {
    (pop) => {
        "ldr {cursor}, [{word}]
        ldr {scratch}, [{cursor}]
        tbnz {scratch}, #0, 5f
        sub {cursor}, {cursor}, #8
        str {cursor}, [{word}]"
    };
    (push) => {
        "ldr {cursor}, [{word}]
        add {cursor}, {cursor}, #8
        tst {cursor}, #1023
        b.eq 5f
        str {object}, [{cursor}]
        str {cursor}, [{word}]"
    };
}

/// A critical section on a word: finds it, then runs a [`body`] with its address in `{word}`.
macro_rules! section {
    ($name:ident, $access:ident, $($operands:tt)*) => {
        ::core::arch::asm!(
            $crate::rseq_descriptor!(),
            "mrs {thread}, tpidr_el0",
            "2:",
            $crate::rseq_arm!(
                "{scratch}",
                thread = "{thread}",
                rseq_cs = "{rseq_cs}",
                "{cursor}" = "{slot}"
            ),
            "ldr {word}, [{table}, {cursor}, lsl #3]",
            "add {word}, {word}, {offset}",
            code::body!($name),
            "5:",
            thread = out(reg) _,
            rseq_cs = in(reg) $access.rseq_cs,
            slot = in(reg) $access.slot,
            word = out(reg) _,
            $($operands)*
            options(nostack),
        )
    };
}

pub(super) use {body, section};

/// The calling thread's slot number at this moment; negative when the thread is not registered.
pub(crate) fn slot(access: Access) -> i32 {
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
