//! Transactions on words anywhere in a row, as rseq critical sections on x86-64.
//!
//! The rules are those of `rseq.rs`, with two differences. The bootstrap block has only the size of
//! a block, so every critical section here leaves when it finds that block (rule 4). And one that
//! fails jumps to the place where the caller continues, so that no outcome is tested twice.

use core::arch::asm;
use core::sync::atomic::AtomicUsize;

use sheaves_sys::rseq::RSEQ_CS_OFFSET;

use super::mode::Access;
use super::rows::{BITS_MAX, Outcome, PackedWord};
use crate::table;
use crate::word::RowWord;
use crate::{rseq_arm, rseq_descriptor};

/// A critical section. `$rseq_cs` is the offset of `rseq_cs` from the thread pointer. `$body` runs
/// with the word's address in `{word}` and ends with the only committing store. `section` in
/// `rseq_x86_64.rs` says why the address is in one register.
macro_rules! section_at {
    ($rseq_cs:literal, $body:literal, $($operands:tt)*) => {
        asm!(
            rseq_descriptor!(),
            "2:",
            rseq_arm!("{word}", rseq_cs = $rseq_cs, "{word}" = "{slot}"),
            "mov {word}, qword ptr [{table} + 8*{word}]",
            "cmp {word}, {bootstrap}",
            "je {no_block}",
            "add {word}, {offset}",
            $body,
            "5:",
            table = in(reg) table::table(),
            bootstrap = in(reg) table::bootstrap(),
            word = out(reg) _,
            no_block = label { return Outcome::NoBlock },
            $($operands)*
            options(nostack),
        )
    };
}

/// A critical section with an [`Access`] and a [`RowWord`].
macro_rules! section {
    ($access:ident, $word:ident, $body:literal, $($operands:tt)*) => {
        section_at!(
            "{rseq_cs}",
            $body,
            rseq_cs = in(reg) $access.rseq_cs,
            slot = in(reg) $access.slot,
            offset = in(reg) $word.offset(),
            $($operands)*
        )
    };
}

/// A bounded addition to a [`PackedWord`], whose offset contains the flag. The displacement in the
/// address subtracts the flag. If the sum is in -2^BITS .. 2^BITS, the sum plus 2^BITS has no bit
/// above the lowest BITS + 1.
macro_rules! section_bounded {
    ($word:ident, $bits:ident, $($amount:tt)*) => {
        section_at!(
            "{area} + {rseq_cs}",
            "mov {value}, qword ptr [{word} - 0x80000000]
            add {value}, {amount}
            lea {above}, [{value} + {limit}]
            shr {above}, {bits}
            jnz {declined}
            mov qword ptr [{word} - 0x80000000], {value}",
            area = in(reg) $word.area(),
            rseq_cs = const RSEQ_CS_OFFSET,
            slot = in(reg) $word.slot(),
            offset = in(reg) $word.flagged_offset(),
            value = out(reg) _,
            above = out(reg) _,
            limit = const 1_i32 << $bits,
            bits = const $bits + 1,
            declined = label { return Outcome::Declined },
            amount = $($amount)*,
        )
    };
}

const _: () = assert!(PackedWord::FLAG_BYTES == 0x8000_0000);

/// Adds to a word of the current slot, wrapping. Never blocks, no atomic.
#[inline(always)]
pub fn add(access: Access, word: RowWord, amount: usize) -> Outcome {
    // SAFETY: the critical section keeps the rules; its only addition is the commit. By its
    // invariants, `word` is a word in every row, here and below.
    unsafe {
        section!(access, word, "add qword ptr [{word}], {amount}", amount = in(reg) amount,);
    }
    Outcome::Done
}

/// [`add`] of a constant. Some CPUs then forward the sum from one addition to the next without a
/// delay; with an amount in a register they do not.
#[inline(always)]
pub fn add_const<const AMOUNT: i32>(access: Access, word: RowWord) -> Outcome {
    // SAFETY: as in `add`.
    unsafe {
        section!(access, word, "add qword ptr [{word}], {amount}", amount = const AMOUNT,);
    }
    Outcome::Done
}

/// Adds if the sum, as a signed number, is in -2<sup>`BITS`</sup> .. 2<sup>`BITS`</sup>.
/// `BITS` is at most [`BITS_MAX`].
#[inline(always)]
pub fn add_bounded<const BITS: u32>(word: PackedWord, amount: usize) -> Outcome {
    const { assert!(BITS <= BITS_MAX) };
    // SAFETY: the critical section keeps the rules; it leaves before the commit if the sum is out
    // of bounds. By the word's invariants both fields are in one area.
    unsafe { section_bounded!(word, BITS, in(reg) amount) }
    Outcome::Done
}

/// [`add_bounded`] of a constant, as in [`add_const`].
#[inline(always)]
pub fn add_bounded_const<const BITS: u32, const AMOUNT: i32>(word: PackedWord) -> Outcome {
    const { assert!(BITS <= BITS_MAX) };
    // SAFETY: as in `add_bounded`.
    unsafe { section_bounded!(word, BITS, const AMOUNT) }
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
    unsafe {
        section!(
            access,
            word,
            "cmp qword ptr [{guard}], 0
            jne {declined}
            add qword ptr [{word}], {amount}",
            guard = in(reg) guard.as_ptr(),
            amount = const AMOUNT,
            declined = label { return Outcome::Declined },
        );
    }
    Outcome::Done
}

/// Replaces `expected` by `new`, if the word holds `expected`.
#[inline(always)]
pub fn cmp_store(access: Access, word: RowWord, expected: usize, new: usize) -> Outcome {
    // SAFETY: the critical section keeps the rules; it leaves before the commit if the word holds
    // another value.
    unsafe {
        section!(
            access,
            word,
            "cmp qword ptr [{word}], {expected}
            jne {declined}
            mov qword ptr [{word}], {new}",
            expected = in(reg) expected,
            new = in(reg) new,
            declined = label { return Outcome::Declined },
        );
    }
    Outcome::Done
}
