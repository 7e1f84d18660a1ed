//! The instructions of transactions on words of rows, on aarch64.
//!
//! No instruction here adds to memory or takes a constant of 32 bits, so a constant amount is a
//! register as any other.

/// A critical section, by the name of its function in `rseq_rows.rs`: finds the row, then runs a
/// body with its address in `{word}`.
///
/// In `add_guarded` two loads have to be ordered. The guard is read after the block: a block that
/// was installed after the words were closed is found only after the guard was set. So the guard's
/// address is computed from the block's, plus 0. And the word is read after the guard: while that
/// is set, the words are taken. So the guard is read by an Acquire load.
macro_rules! section {
    (add, $access:ident, $word:ident, $amount:expr) => {
        code::section!(@ $access, $word,
            "ldr {value}, [{word}, {offset}]
            add {value}, {value}, {amount}
            str {value}, [{word}, {offset}]",
            amount = in(reg) $amount,)
    };
    (add_const, $access:ident, $word:ident, $amount:ident) => {
        code::section!(add, $access, $word, $amount as usize)
    };
    // A sum is out of bounds if it differs from its lowest BITS + 1 bits with their sign extended.
    (add_bounded, $word:ident, $bits:ident, $amount:expr) => {{
        let access = $word.access();
        code::section!(@ access, $word,
            "ldr {value}, [{word}, {offset}]
            add {value}, {value}, {amount}
            sbfx {low}, {value}, #0, #{bits}
            cmp {low}, {value}
            b.ne {declined}
            str {value}, [{word}, {offset}]",
            low = out(reg) _,
            bits = const $bits + 1,
            declined = label { return Outcome::Declined },
            amount = in(reg) $amount,)
    }};
    (add_bounded_const, $word:ident, $bits:ident, $amount:ident) => {
        code::section!(add_bounded, $word, $bits, $amount as usize)
    };
    (add_guarded, $access:ident, $word:ident, $guard:ident, $amount:ident) => {
        code::section!(@ $access, $word,
            "eor {value}, {word}, {word}
            add {value}, {value}, {guard}
            ldar {value}, [{value}]
            cbnz {value}, {declined}
            ldr {value}, [{word}, {offset}]
            add {value}, {value}, {amount}
            str {value}, [{word}, {offset}]",
            guard = in(reg) $guard.as_ptr(),
            amount = in(reg) $amount as usize,
            declined = label { return Outcome::Declined },)
    };
    (cmp_store, $access:ident, $word:ident, $expected:ident, $new:ident) => {
        code::section!(@ $access, $word,
            "add {word}, {word}, {offset}
            ldar {value}, [{word}]
            cmp {value}, {expected}
            b.ne {declined}
            stlr {new}, [{word}]",
            expected = in(reg) $expected,
            new = in(reg) $new,
            declined = label { return Outcome::Declined },)
    };
    (@ $access:ident, $word:ident, $body:literal, $($operands:tt)*) => {
        ::core::arch::asm!(
            $crate::rseq_descriptor!(),
            "mrs {thread}, tpidr_el0",
            "2:",
            $crate::rseq_arm!(
                "{word}",
                thread = "{thread}",
                rseq_cs = "{rseq_cs}",
                "{word}" = "{slot}"
            ),
            "ldr {word}, [{table}, {word}, lsl #3]",
            "cmp {word}, {bootstrap}",
            "b.eq {no_block}",
            $body,
            "5:",
            thread = out(reg) _,
            rseq_cs = in(reg) $access.rseq_cs,
            slot = in(reg) $access.slot,
            table = in(reg) $crate::table::table(),
            bootstrap = in(reg) $crate::table::bootstrap(),
            offset = in(reg) $word.offset(),
            word = out(reg) _,
            value = out(reg) _,
            no_block = label { return Outcome::NoBlock },
            $($operands)*
            options(nostack),
        )
    };
}

pub(super) use section;
