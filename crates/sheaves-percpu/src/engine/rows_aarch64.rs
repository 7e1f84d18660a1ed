//! Transactions on words anywhere in a row, as rseq critical sections on aarch64.
//!
//! They differ from those of `rseq_aarch64.rs` as `rows_x86_64.rs` says: they leave when they find
//! the bootstrap block, and one that fails jumps to the place where the caller continues. No
//! instruction here adds to memory or takes a constant of 32 bits, so a constant amount is a
//! register as any other.

use core::arch::asm;
use core::sync::atomic::AtomicUsize;

use super::mode::Access;
use super::rows::{BITS_MAX, Outcome, PackedWord};
use crate::table;
use crate::word::RowWord;
use crate::{rseq_arm, rseq_descriptor};

/// A critical section. `$body` runs with the row's address in `{word}` and ends with the only
/// committing store.
macro_rules! section {
    ($access:ident, $word:ident, $body:literal, $($operands:tt)*) => {
        asm!(
            rseq_descriptor!(),
            "mrs {thread}, tpidr_el0",
            "2:",
            rseq_arm!("{word}", thread = "{thread}", rseq_cs = "{rseq_cs}", "{word}" = "{slot}"),
            "ldr {word}, [{table}, {word}, lsl #3]",
            "cmp {word}, {bootstrap}",
            "b.eq {no_block}",
            $body,
            "5:",
            thread = out(reg) _,
            rseq_cs = in(reg) $access.rseq_cs,
            slot = in(reg) $access.slot,
            table = in(reg) table::table(),
            bootstrap = in(reg) table::bootstrap(),
            offset = in(reg) $word.offset(),
            word = out(reg) _,
            value = out(reg) _,
            no_block = label { return Outcome::NoBlock },
            $($operands)*
            options(nostack),
        )
    };
}

/// Adds to a word of the current slot, wrapping. Never blocks, no atomic.
#[inline(always)]
pub fn add(access: Access, word: RowWord, amount: usize) -> Outcome {
    // SAFETY: the critical section keeps the rules; its only store is the commit. By its
    // invariants, `word` is a word in every row, here and below.
    unsafe {
        section!(
            access,
            word,
            "ldr {value}, [{word}, {offset}]
            add {value}, {value}, {amount}
            str {value}, [{word}, {offset}]",
            amount = in(reg) amount,
        );
    }
    Outcome::Done
}

/// [`add`] of a constant.
#[inline(always)]
pub fn add_const<const AMOUNT: i32>(access: Access, word: RowWord) -> Outcome {
    add(access, word, AMOUNT as usize)
}

/// Adds if the sum, as a signed number, is in -2<sup>`BITS`</sup> .. 2<sup>`BITS`</sup>.
/// `BITS` is at most [`BITS_MAX`].
#[inline(always)]
pub fn add_bounded<const BITS: u32>(word: PackedWord, amount: usize) -> Outcome {
    const { assert!(BITS <= BITS_MAX) };
    let access = word.access();
    // SAFETY: the critical section keeps the rules. It leaves before the commit if the sum is out
    // of bounds, that is, if it differs from its lowest BITS + 1 bits with their sign extended. By
    // the word's invariants both fields are in one area.
    unsafe {
        section!(
            access,
            word,
            "ldr {value}, [{word}, {offset}]
            add {value}, {value}, {amount}
            sbfx {low}, {value}, #0, #{bits}
            cmp {low}, {value}
            b.ne {declined}
            str {value}, [{word}, {offset}]",
            low = out(reg) _,
            bits = const BITS + 1,
            declined = label { return Outcome::Declined },
            amount = in(reg) amount,
        );
    }
    Outcome::Done
}

/// [`add_bounded`] of a constant.
#[inline(always)]
pub fn add_bounded_const<const BITS: u32, const AMOUNT: i32>(word: PackedWord) -> Outcome {
    add_bounded::<BITS>(word, AMOUNT as usize)
}

/// Adds if the guard is 0, wrapping.
///
/// Two loads have to be ordered. The guard is read after the block: a block that was installed
/// after the words were closed is found only after the guard was set. So the guard's address is
/// computed from the block's, plus 0. And the word is read after the guard: while that is set, the
/// words are taken. So the guard is read by an Acquire load.
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
            "eor {value}, {word}, {word}
            add {value}, {value}, {guard}
            ldar {value}, [{value}]
            cbnz {value}, {declined}
            ldr {value}, [{word}, {offset}]
            add {value}, {value}, {amount}
            str {value}, [{word}, {offset}]",
            guard = in(reg) guard.as_ptr(),
            amount = in(reg) AMOUNT as usize,
            declined = label { return Outcome::Declined },
        );
    }
    Outcome::Done
}

/// Replaces `expected` by `new`, if the word holds `expected`. Acquire and Release, as the exchange
/// of the portable engine.
#[inline(always)]
pub fn cmp_store(access: Access, word: RowWord, expected: usize, new: usize) -> Outcome {
    // SAFETY: the critical section keeps the rules; it leaves before the commit if the word holds
    // another value.
    unsafe {
        section!(
            access,
            word,
            "add {word}, {word}, {offset}
            ldar {value}, [{word}]
            cmp {value}, {expected}
            b.ne {declined}
            stlr {new}, [{word}]",
            expected = in(reg) expected,
            new = in(reg) new,
            declined = label { return Outcome::Declined },
        );
    }
    Outcome::Done
}
