//! The instructions of transactions on x86-64.

use core::arch::asm;

use crate::engine::mode::Access;

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

pub(super) use {body, section};

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
