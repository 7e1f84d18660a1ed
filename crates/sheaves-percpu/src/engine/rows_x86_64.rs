//! Transactions on words anywhere in a row, by restartable sequences on x86-64.
//!
//! The rules are those of `rseq_x86_64.rs`, numbers included. Two things differ. The bootstrap
//! block ends where blocks end, so every sequence here leaves when it finds that block (rule 4).
//! And the sequences have no result: whoever refuses jumps to where the caller goes on, so that
//! no outcome is tested twice.

use core::arch::asm;
use core::sync::atomic::AtomicUsize;

use sheaves_sys::rseq::SEQUENCE_OFFSET;

use super::{Access, Near, Outcome};
use crate::area;

/// The parts that all sequences share. `$sequence` is where `rseq_cs` lies, from the thread
/// pointer. `$body` runs with the row's address in `{block}` and ends with the one committing
/// store.
macro_rules! sequence_at {
    ($sequence:literal, [$($body:literal),+ $(,)?], $($operands:tt)*) => {
        asm!(
            // The descriptor: version, flags, start, length, abort handler.
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "3: .long 0, 0",
            ".quad 4f, 5f - 4f, 6f",
            ".popsection",
            // The abort handler, behind its signature.
            ".pushsection .text.sheaves_abort, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "6: jmp 2f",
            ".popsection",
            "2: lea {block}, [rip + 3b]",
            concat!("mov qword ptr fs:[", $sequence, "], {block}"),
            "4: movsxd {block}, dword ptr fs:[{slot}]",
            "mov {block}, qword ptr [{table} + 8*{block}]",
            "cmp {block}, {bootstrap}",
            "je {refused}",
            $($body,)+
            "5:",
            table = in(reg) area::table(),
            bootstrap = in(reg) area::bootstrap(),
            block = out(reg) _,
            refused = label { return Outcome::NoBlock },
            $($operands)*
        )
    };
}

/// A sequence with an [`Access`].
macro_rules! sequence {
    ($access:ident, [$($body:literal),+ $(,)?], $($operands:tt)*) => {
        sequence_at!(
            "{sequence}",
            [$($body),+],
            sequence = in(reg) $access.sequence,
            slot = in(reg) $access.slot,
            $($operands)*
        )
    };
}

/// # Safety
/// As [`super::add`].
#[inline(always)]
pub(super) unsafe fn add(access: Access, offset: usize, amount: usize) -> Outcome {
    // SAFETY: the sequence keeps the rules; the one instruction that adds is the commit. The
    // caller vouches for the word.
    unsafe {
        sequence!(
            access,
            ["add qword ptr [{block} + {offset}], {amount}"],
            offset = in(reg) offset,
            amount = in(reg) amount,
            options(nostack),
        );
    }
    Outcome::Done
}

/// # Safety
/// As [`super::add`].
#[inline(always)]
pub(super) unsafe fn add_checked(access: Access, offset: usize, amount: usize) -> Outcome {
    // SAFETY: the sequence keeps the rules; it leaves before the commit where the sum does not
    // fit. The caller vouches for the word.
    unsafe {
        sequence!(
            access,
            [
                "mov {value}, qword ptr [{block} + {offset}]",
                "add {value}, {amount}",
                "jo {declined}",
                "mov qword ptr [{block} + {offset}], {value}",
            ],
            value = out(reg) _,
            offset = in(reg) offset,
            amount = in(reg) amount,
            declined = label { return Outcome::Declined },
            options(nostack),
        );
    }
    Outcome::Done
}

/// # Safety
/// As [`super::add_near`].
#[inline(always)]
pub(super) unsafe fn add_near(place: Near, amount: usize) -> Outcome {
    // SAFETY: as in `add_checked`. A `Near` exists only where both fields lie in one area of their
    // thread, and its offset still has the mark, which the displacement takes off.
    unsafe {
        sequence_at!(
            "{area} + {sequence}",
            [
                "mov {value}, qword ptr [{block} + {marked} - 0x80000000]",
                "add {value}, {amount}",
                "jo {declined}",
                "mov qword ptr [{block} + {marked} - 0x80000000], {value}",
            ],
            area = in(reg) place.area(),
            sequence = const SEQUENCE_OFFSET,
            slot = in(reg) place.slot(),
            value = out(reg) _,
            marked = in(reg) place.marked_offset(),
            amount = in(reg) amount,
            declined = label { return Outcome::Declined },
            options(nostack),
        );
    }
    Outcome::Done
}

const _: () = assert!(Near::MARK_BYTES == 0x8000_0000);

/// # Safety
/// As [`super::add`].
#[inline(always)]
pub(super) unsafe fn add_guarded(
    access: Access,
    guard: &AtomicUsize,
    offset: usize,
    amount: usize,
) -> Outcome {
    // SAFETY: the sequence keeps the rules; it leaves before the commit where the guard is not 0.
    // The guard is borrowed, so it stays where it is. The caller vouches for the word.
    unsafe {
        sequence!(
            access,
            [
                "cmp qword ptr [{guard}], 0",
                "jne {declined}",
                "add qword ptr [{block} + {offset}], {amount}",
            ],
            guard = in(reg) guard.as_ptr(),
            offset = in(reg) offset,
            amount = in(reg) amount,
            declined = label { return Outcome::Declined },
            options(nostack),
        );
    }
    Outcome::Done
}

/// # Safety
/// As [`super::add`].
#[inline(always)]
pub(super) unsafe fn cmp_store(
    access: Access,
    offset: usize,
    expected: usize,
    new: usize,
) -> Outcome {
    // SAFETY: the sequence keeps the rules; it leaves before the commit where the word holds
    // something else. The caller vouches for the word.
    unsafe {
        sequence!(
            access,
            [
                "cmp qword ptr [{block} + {offset}], {expected}",
                "jne {declined}",
                "mov qword ptr [{block} + {offset}], {new}",
            ],
            expected = in(reg) expected,
            new = in(reg) new,
            offset = in(reg) offset,
            declined = label { return Outcome::Declined },
            options(nostack),
        );
    }
    Outcome::Done
}
