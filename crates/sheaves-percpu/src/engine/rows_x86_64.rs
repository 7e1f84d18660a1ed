//! Transactions on words anywhere in a row, as rseq critical sections on x86-64.
//!
//! The rules are those of `rseq_x86_64.rs`, with the same numbers. There are two differences. The
//! bootstrap block has only the size of a block, so every critical section here leaves when it
//! finds that block (rule 4). And critical sections have no result: one that fails jumps to the
//! place where the caller continues, so that no outcome is tested twice.

use core::arch::asm;
use core::sync::atomic::AtomicUsize;

use sheaves_sys::rseq::RSEQ_CS_OFFSET;

use super::{Access, Near, Outcome};
use crate::area;

/// The common parts of all critical sections. `$sequence` is the offset of `rseq_cs` from the
/// thread pointer. `$body` runs with the word's address in `{word}` and ends with the only
/// committing store. `sequence` in `rseq_x86_64.rs` says why the address is in one register.
macro_rules! sequence_at {
    ($sequence:literal, [$($body:expr),+ $(,)?], $($operands:tt)*) => {
        asm!(
            // The descriptor: version, flags, start, length, abort handler.
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "3: .long 0, 0",
            ".quad 4f, 5f - 4f, 6f",
            ".popsection",
            // The abort handler, after its signature.
            ".pushsection .text.sheaves_abort, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "6: jmp 2f",
            ".popsection",
            "2: lea {word}, [rip + 3b]",
            concat!("mov qword ptr fs:[", $sequence, "], {word}"),
            "4: movsxd {word}, dword ptr fs:[{slot}]",
            "mov {word}, qword ptr [{table} + 8*{word}]",
            "cmp {word}, {bootstrap}",
            "je {refused}",
            "add {word}, {offset}",
            $($body,)+
            "5:",
            table = in(reg) area::table(),
            bootstrap = in(reg) area::bootstrap(),
            word = out(reg) _,
            refused = label { return Outcome::NoBlock },
            $($operands)*
        )
    };
}

/// A critical section with an [`Access`].
macro_rules! sequence {
    ($access:ident, [$($body:expr),+ $(,)?], $($operands:tt)*) => {
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
    // SAFETY: the critical section keeps the rules; its only addition is the commit. The caller
    // guarantees the word.
    unsafe {
        sequence!(
            access,
            ["add qword ptr [{word}], {amount}"],
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
pub(super) unsafe fn add_const<const AMOUNT: i32>(access: Access, offset: usize) -> Outcome {
    // SAFETY: as in `add`.
    unsafe {
        sequence!(
            access,
            ["add qword ptr [{word}], {amount}"],
            offset = in(reg) offset,
            amount = const AMOUNT,
            options(nostack),
        );
    }
    Outcome::Done
}

/// The bodies of bounded additions, whose word is at `{word}` plus `$displaced`. If the sum is in
/// -2^BITS .. 2^BITS, the sum plus 2^BITS has no bit above the lowest BITS + 1.
macro_rules! bounded {
    ($sequence:ident!($first:tt), $displaced:literal, $bits:ident, $($operands:tt)*) => {
        $sequence!(
            $first,
            [
                concat!("mov {value}, qword ptr [{word}", $displaced, "]"),
                "add {value}, {amount}",
                "lea {above}, [{value} + {limit}]",
                "shr {above}, {bits}",
                "jnz {declined}",
                concat!("mov qword ptr [{word}", $displaced, "], {value}"),
            ],
            value = out(reg) _,
            above = out(reg) _,
            limit = const 1_i32 << $bits,
            bits = const $bits + 1,
            declined = label { return Outcome::Declined },
            $($operands)*
            options(nostack),
        )
    };
}

/// A critical section with a [`Near`]: its offset contains the mark, which the displacement
/// subtracts.
macro_rules! sequence_near {
    ($place:ident, [$($body:expr),+ $(,)?], $($operands:tt)*) => {
        sequence_at!(
            "{area} + {sequence}",
            [$($body),+],
            area = in(reg) $place.area(),
            sequence = const RSEQ_CS_OFFSET,
            slot = in(reg) $place.slot(),
            offset = in(reg) $place.marked_offset(),
            $($operands)*
        )
    };
}

/// # Safety
/// As [`super::add`].
#[inline(always)]
pub(super) unsafe fn add_bounded<const BITS: u32>(
    access: Access,
    offset: usize,
    amount: usize,
) -> Outcome {
    // SAFETY: the critical section keeps the rules; it leaves before the commit if the sum is out
    // of bounds. The caller guarantees the word.
    unsafe {
        bounded!(sequence!(access), "", BITS, offset = in(reg) offset, amount = in(reg) amount,);
    }
    Outcome::Done
}

/// # Safety
/// As [`super::add_near`].
#[inline(always)]
pub(super) unsafe fn add_near<const BITS: u32>(place: Near, amount: usize) -> Outcome {
    // SAFETY: as in `add_bounded`. A `Near` exists only where both fields are in one area of their
    // thread.
    unsafe {
        bounded!(sequence_near!(place), " - 0x80000000", BITS, amount = in(reg) amount,);
    }
    Outcome::Done
}

/// # Safety
/// As [`super::add_near`].
#[inline(always)]
pub(super) unsafe fn add_near_const<const BITS: u32, const AMOUNT: i32>(place: Near) -> Outcome {
    // SAFETY: as in `add_near`.
    unsafe {
        bounded!(sequence_near!(place), " - 0x80000000", BITS, amount = const AMOUNT,);
    }
    Outcome::Done
}

const _: () = assert!(Near::MARK_BYTES == 0x8000_0000);

/// # Safety
/// As [`super::add`].
#[inline(always)]
pub(super) unsafe fn add_guarded<const AMOUNT: i32>(
    access: Access,
    guard: &AtomicUsize,
    offset: usize,
) -> Outcome {
    // SAFETY: the critical section keeps the rules; it leaves before the commit if the guard is not
    // 0. The guard is borrowed, so it stays valid. The caller guarantees the word.
    unsafe {
        sequence!(
            access,
            [
                "cmp qword ptr [{guard}], 0",
                "jne {declined}",
                "add qword ptr [{word}], {amount}",
            ],
            guard = in(reg) guard.as_ptr(),
            offset = in(reg) offset,
            amount = const AMOUNT,
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
    // SAFETY: the critical section keeps the rules; it leaves before the commit if the word holds
    // another value. The caller guarantees the word.
    unsafe {
        sequence!(
            access,
            [
                "cmp qword ptr [{word}], {expected}",
                "jne {declined}",
                "mov qword ptr [{word}], {new}",
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
