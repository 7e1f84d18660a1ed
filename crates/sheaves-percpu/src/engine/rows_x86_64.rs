//! The instructions of transactions on words of rows, on x86-64.

use crate::engine::rows::PackedWord;

/// A critical section, by the name of its function in `rseq_rows.rs`: finds the word, then runs a
/// body with its address in `{word}`. `section` in `rseq_x86_64.rs` says why the address is in one
/// register.
macro_rules! section {
    (add, $access:ident, $word:ident, $amount:ident) => {
        code::section!(@ $access, $word, "add qword ptr [{word}], {amount}",
            amount = in(reg) $amount,)
    };
    (add_const, $access:ident, $word:ident, $amount:ident) => {
        code::section!(@ $access, $word, "add qword ptr [{word}], {amount}",
            amount = const $amount,)
    };
    (add_bounded, $word:ident, $bits:ident, $amount:ident) => {
        code::section!(@bounded $word, $bits, in(reg) $amount)
    };
    (add_bounded_const, $word:ident, $bits:ident, $amount:ident) => {
        code::section!(@bounded $word, $bits, const $amount)
    };
    (add_guarded, $access:ident, $word:ident, $guard:ident, $amount:ident) => {
        code::section!(@ $access, $word,
            "cmp qword ptr [{guard}], 0
            jne {declined}
            add qword ptr [{word}], {amount}",
            guard = in(reg) $guard.as_ptr(),
            amount = const $amount,
            declined = label { return Outcome::Declined },)
    };
    (cmp_store, $access:ident, $word:ident, $expected:ident, $new:ident) => {
        code::section!(@ $access, $word,
            "cmp qword ptr [{word}], {expected}
            jne {declined}
            mov qword ptr [{word}], {new}",
            expected = in(reg) $expected,
            new = in(reg) $new,
            declined = label { return Outcome::Declined },)
    };
    // A packed word's offset contains the flag, which the displacement in the address subtracts. If
    // the sum is in -2^BITS .. 2^BITS, the sum plus 2^BITS has no bit above the lowest BITS + 1.
    (@bounded $word:ident, $bits:ident, $($amount:tt)*) => {
        code::section!(@@ "{area} + {rseq_cs}",
            "mov {value}, qword ptr [{word} - 0x80000000]
            add {value}, {amount}
            lea {above}, [{value} + {limit}]
            shr {above}, {bits}
            jnz {declined}
            mov qword ptr [{word} - 0x80000000], {value}",
            area = in(reg) $word.area(),
            rseq_cs = const ::sheaves_sys::rseq::RSEQ_CS_OFFSET,
            slot = in(reg) $word.slot(),
            offset = in(reg) $word.flagged_offset(),
            value = out(reg) _,
            above = out(reg) _,
            limit = const 1_i32 << $bits,
            bits = const $bits + 1,
            declined = label { return Outcome::Declined },
            amount = $($amount)*,)
    };
    (@ $access:ident, $word:ident, $body:literal, $($operands:tt)*) => {
        code::section!(@@ "{rseq_cs}", $body,
            rseq_cs = in(reg) $access.rseq_cs,
            slot = in(reg) $access.slot,
            offset = in(reg) $word.offset(),
            $($operands)*)
    };
    (@@ $rseq_cs:literal, $body:literal, $($operands:tt)*) => {
        ::core::arch::asm!(
            $crate::rseq_descriptor!(),
            "2:",
            $crate::rseq_arm!("{word}", rseq_cs = $rseq_cs, "{word}" = "{slot}"),
            "mov {word}, qword ptr [{table} + 8*{word}]",
            "cmp {word}, {bootstrap}",
            "je {no_block}",
            "add {word}, {offset}",
            $body,
            "5:",
            table = in(reg) $crate::table::table(),
            bootstrap = in(reg) $crate::table::bootstrap(),
            word = out(reg) _,
            no_block = label { return Outcome::NoBlock },
            $($operands)*
            options(nostack),
        )
    };
}

pub(super) use section;

const _: () = assert!(PackedWord::FLAG_BYTES == 0x8000_0000);
