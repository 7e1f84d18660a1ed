//! The instructions of rseq critical sections on aarch64.
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
//! - Whole sheaves pass between CPUs by `cmp_store`, which is Acquire for the
//!   one that is taken and Release for the one that is left. The kernel's barriers suffice for
//!   these, too; exchanges are rare, and this needs no argument about the scheduler.

use core::arch::asm;

use super::mode::Access;

/// The abort handler, behind the signature: an instruction that traps.
#[doc(hidden)]
#[macro_export]
macro_rules! rseq_abort {
    ($target:literal) => {
        concat!(
            "
        .inst 0xd428bc00
        6: b ",
            $target
        )
    };
}

/// Arms the critical section by a store to `rseq_cs`, and begins it: loads the slot number.
/// `$thread` is the thread pointer; `$address` and `$slot` are registers that it changes.
#[doc(hidden)]
#[macro_export]
macro_rules! rseq_arm {
    (
        $address:literal,
        thread = $thread:literal,
        rseq_cs = $rseq_cs:literal,
        $slot:literal = $slot_offset:literal
    ) => {
        concat!(
            concat!("adrp ", $address, ", 3b\n"),
            concat!("add ", $address, ", ", $address, ", :lo12:3b\n"),
            concat!("str ", $address, ", [", $thread, ", ", $rseq_cs, "]\n"),
            concat!("4: ldrsw ", $slot, ", [", $thread, ", ", $slot_offset, "]"),
        )
    };
}

const _: () = assert!(sheaves_sys::rseq::SIGNATURE == 0xD428_BC00);

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

/// A critical section, by the name of its function in `rseq.rs`: finds the row, then runs a body
/// with its address in `{word}`. No instruction here adds to memory or takes a constant of 32 bits,
/// so a constant amount is a register as any other.
///
/// In `add_guarded` two loads have to be ordered. The guard is read after the block: a block that
/// was installed after the words were closed is found only after the guard was set. So the guard's
/// address is computed from the block's, plus 0. And the word is read after the guard: while that
/// is set, the words are taken. So the guard is read by an Acquire load.
macro_rules! row_section {
    (add, $access:ident, $word:ident, $amount:expr) => {
        code::row_section!(@ $access, $word,
            "ldr {value}, [{word}, {offset}]
            add {value}, {value}, {amount}
            str {value}, [{word}, {offset}]",
            amount = in(reg) $amount,)
    };
    (add_const, $access:ident, $word:ident, $amount:ident) => {
        code::row_section!(add, $access, $word, $amount as usize)
    };
    // A sum is out of bounds if it differs from its lowest BITS + 1 bits with their sign extended.
    (add_bounded, $word:ident, $bits:ident, $amount:expr) => {{
        let access = $word.access();
        code::row_section!(@ access, $word,
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
        code::row_section!(add_bounded, $word, $bits, $amount as usize)
    };
    (add_guarded, $access:ident, $word:ident, $guard:ident, $amount:ident) => {
        code::row_section!(@ $access, $word,
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
        code::row_section!(@ $access, $word,
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

/// The instructions of [`pop_by_size`](crate::pop_by_size). They change registers 9 to 15 only,
/// and keep the argument, in register 0, until the commit. A conditional branch reaches less far
/// than a slow path may be, so each leaves by a branch of its own at label 7.
///
/// The limit is read by an Acquire load: a thread that finds it raised also finds all else that the
/// start has written.
#[doc(hidden)]
#[macro_export]
macro_rules! pop_instructions {
    () => {
        concat!(
            "adrp x9, {data} + {in_page}
            add x9, x9, :lo12:{data} + {in_page}
            add x10, x9, {limit}
            ldar x10, [x10]
            cmp x0, x10
            b.hs 7f
            add x10, x0, #15
            lsr x10, x10, #4
            adrp x11, {table} + {in_page}
            add x11, x11, :lo12:{table} + {in_page}
            ldrh w10, [x11, x10, lsl #1]
            ldp x11, x12, [x9]
            mrs x13, tpidr_el0
            add x14, x9, {bases}\n",
            $crate::rseq_arm!("x9", thread = "x13", rseq_cs = "x11", "x15" = "x12"),
            "
            ldr x15, [x14, x15, lsl #3]
            add x10, x10, x15
            ldr x15, [x10]
            ldr x9, [x15]
            tbnz x9, #0, 7f
            sub x15, x15, #8
            str x15, [x10]
            5: mov x0, x9
            ret
            7: b {slow}
            .p2align 6"
        )
    };
}

/// Those of [`push_by_address`](crate::push_by_address).
#[doc(hidden)]
#[macro_export]
macro_rules! push_instructions {
    () => {
        concat!(
            "adrp x9, {data} + {in_page}
            add x9, x9, :lo12:{data} + {in_page}
            ldp x11, x12, [x9, {window}]
            sub x10, x0, x11
            cmp x10, x12
            b.hs 7f
            tst x0, #15
            b.ne 7f
            lsr x10, x10, #16
            ldrh w10, [x11, x10, lsl #1]
            ldp x11, x12, [x9]
            mrs x13, tpidr_el0
            add x14, x9, {bases}\n",
            $crate::rseq_arm!("x9", thread = "x13", rseq_cs = "x11", "x15" = "x12"),
            "
            ldr x15, [x14, x15, lsl #3]
            add x10, x10, x15
            ldr x15, [x10]
            add x15, x15, #8
            tst x15, #1023
            b.eq 7f
            str x0, [x15]
            str x15, [x10]
            5: ret
            7: b {slow}
            .p2align 6"
        )
    };
}

pub(super) use {body, row_section, section};

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
