//! The instructions of rseq critical sections on x86-64.

use core::arch::asm;

use super::mode::Access;
use super::rows::PackedWord;

/// The abort handler, behind the signature: part of an undefined instruction.
#[doc(hidden)]
#[macro_export]
macro_rules! rseq_abort {
    ($target:literal) => {
        concat!(
            "
        .byte 0x0f, 0xb9, 0x3d
        .long 0x53053053
        6: jmp ",
            $target
        )
    };
}

/// Arms the critical section by a store to `rseq_cs`, and begins it: loads the slot number.
/// `$address` and `$slot` are registers that it changes.
#[doc(hidden)]
#[macro_export]
macro_rules! rseq_arm {
    ($address:literal, rseq_cs = $rseq_cs:literal, $slot:literal = $slot_offset:literal) => {
        concat!(
            concat!("lea ", $address, ", [rip + 3b]\n"),
            concat!("mov qword ptr fs:[", $rseq_cs, "], ", $address, "\n"),
            concat!("4: movsxd ", $slot, ", dword ptr fs:[", $slot_offset, "]"),
        )
    };
}

const _: () = assert!(sheaves_sys::rseq::SIGNATURE == 0x5305_3053);

/// What a critical section does after it has found the word: `$name` is its function in `rseq.rs`.
/// It ends with the only committing store, and leaves early by a jump to label 5.
macro_rules! body {
    (pop) => {
        "mov {cursor}, qword ptr [{word}]
        mov {scratch}, qword ptr [{cursor}]
        test {scratch:l}, 1
        jnz 5f
        sub {cursor}, 8
        mov qword ptr [{word}], {cursor}"
    };
    (push) => {
        "mov {cursor}, qword ptr [{word}]
        add {cursor}, 8
        test {cursor:e}, 1023
        jz 5f
        mov qword ptr [{cursor}], {object}
        mov qword ptr [{word}], {cursor}"
    };
}

/// A critical section on a word: finds it, then runs a [`body`] with its address in `{word}`.
///
/// The word is addressed by one register alone. Some CPUs (Intel since Golden Cove) then forward a
/// stored value to a following load by the form of the instructions, so the cursor passes from one
/// transaction to the next without a trip through memory. With an index in the address they do not.
/// In a loop of an allocation and a free this saves a fourth of the time.
macro_rules! section {
    ($name:ident, $access:ident, $($operands:tt)*) => {
        ::core::arch::asm!(
            $crate::rseq_descriptor!(),
            "2:",
            $crate::rseq_arm!("{scratch}", rseq_cs = "{rseq_cs}", "{cursor}" = "{slot}"),
            "mov {word}, qword ptr [{table} + 8*{cursor}]",
            "add {word}, {offset}",
            code::body!($name),
            "5:",
            rseq_cs = in(reg) $access.rseq_cs,
            slot = in(reg) $access.slot,
            word = out(reg) _,
            $($operands)*
            options(nostack),
        )
    };
}

/// A critical section, by the name of its function in `rseq.rs`: finds the word, then runs a body
/// with its address in `{word}`. [`section`] says why the address is in one register.
macro_rules! row_section {
    (add, $access:ident, $word:ident, $amount:ident) => {
        code::row_section!(@ $access, $word, "add qword ptr [{word}], {amount}",
            amount = in(reg) $amount,)
    };
    (add_const, $access:ident, $word:ident, $amount:ident) => {
        code::row_section!(@ $access, $word, "add qword ptr [{word}], {amount}",
            amount = const $amount,)
    };
    (add_bounded, $word:ident, $bits:ident, $amount:ident) => {
        code::row_section!(@bounded $word, $bits, in(reg) $amount)
    };
    (add_bounded_const, $word:ident, $bits:ident, $amount:ident) => {
        code::row_section!(@bounded $word, $bits, const $amount)
    };
    (add_guarded, $access:ident, $word:ident, $guard:ident, $amount:ident) => {
        code::row_section!(@ $access, $word,
            "cmp qword ptr [{guard}], 0
            jne {declined}
            add qword ptr [{word}], {amount}",
            guard = in(reg) $guard.as_ptr(),
            amount = const $amount,
            declined = label { return Outcome::Declined },)
    };
    (cmp_store, $access:ident, $word:ident, $expected:ident, $new:ident) => {
        code::row_section!(@ $access, $word,
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
        code::row_section!(@@ "{area} + {rseq_cs}",
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
        code::row_section!(@@ "{rseq_cs}", $body,
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

const _: () = assert!(PackedWord::FLAG_BYTES == 0x8000_0000);

/// The instructions of [`pop_by_size`](crate::pop_by_size).
#[doc(hidden)]
#[macro_export]
macro_rules! pop_instructions {
    () => {
        concat!(
            "cmp rdi, qword ptr [rip + {data} + {in_page} + {limit}]
            jae {slow}
            lea rax, [rdi + 15]
            shr rax, 4
            lea rcx, [rip + {table} + {in_page}]
            movzx ecx, word ptr [rcx + 2*rax]
            mov rdx, qword ptr [rip + {data} + {in_page}]
            mov rsi, qword ptr [rip + {data} + {in_page} + 8]
            lea r8, [rip + {data} + {in_page} + {bases}]\n",
            $crate::rseq_arm!("rax", rseq_cs = "rdx", "r10" = "rsi"),
            "
            add rcx, qword ptr [r8 + 8*r10]
            mov r10, qword ptr [rcx]
            mov rax, qword ptr [r10]
            test al, 1
            jnz {slow}
            sub r10, 8
            mov qword ptr [rcx], r10
            5: ret
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
            "mov rax, qword ptr [rip + {data} + {in_page} + {window}]
            mov rcx, rdi
            sub rcx, rax
            cmp rcx, qword ptr [rip + {data} + {in_page} + {window} + 8]
            jae {slow}
            test dil, 15
            jnz {slow}
            shr rcx, 16
            movzx ecx, word ptr [rax + 2*rcx]
            mov rdx, qword ptr [rip + {data} + {in_page}]
            mov rsi, qword ptr [rip + {data} + {in_page} + 8]
            lea r8, [rip + {data} + {in_page} + {bases}]\n",
            $crate::rseq_arm!("rax", rseq_cs = "rdx", "r10" = "rsi"),
            "
            add rcx, qword ptr [r8 + 8*r10]
            mov r10, qword ptr [rcx]
            add r10, 8
            test r10d, 1023
            jz {slow}
            mov qword ptr [r10], rdi
            mov qword ptr [rcx], r10
            5: ret
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
            "movsxd {slot}, dword ptr fs:[{offset}]",
            offset = in(reg) access.slot,
            slot = out(reg) slot,
            options(nostack, preserves_flags, readonly),
        );
    }
    i32::try_from(slot).unwrap_or(-1)
}
