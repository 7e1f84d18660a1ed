//! Transactions by Linux restartable sequences on x86-64.
//!
//! A sequence is a few instructions that the kernel promises to run without preemption, signal or
//! migration in between; where one of these hits, it continues at the abort handler, which starts
//! over. The rules, which are the kernel's (those of Linux 6.19 included), and where they are
//! kept here:
//!
//! 1. Armed by a store to `rseq_cs`, the only field that is ever written.
//! 2. Slot number, base and cursor are read inside the sequence, each time: a fence aborts
//!    sequences, it does not rewrite ids.
//! 3. One store commits, and it is the last instruction.
//! 4. No call, no system call, no access that can fault: table, blocks and sheaves stay mapped
//!    for the life of the process.
//! 5. The signature stands before the abort handler.
//! 6. Nothing is pushed: the red zone and the stack pointer are not touched.
//!
//! All sequences have the form "`inout`/`out` registers and a value that tells the outcome": a
//! refused one leaves through its end label before the commit. The descriptor is not cleared
//! afterwards; the kernel does that when it finds the instruction pointer outside.
//!
//! Beside the thread's rseq area the fast path reads one word, `sheaves_hot`:
//!
//! | bits | meaning | before the start |
//! |---|---|---|
//! | 0..32 | distance, signed, from this project's own rseq area to the one in use | 0 |
//! | 32..64 | offset of the slot number in the area | that of `mm_cid`, which is -1 there |
//!
//! and the table of bases, whose entry for -1 is the bootstrap block from the start. So it needs
//! no test for "not started yet", nor one for "this thread is not registered". (Only a distance
//! can stand there: not every linker takes thread-pointer offsets in data of a shared object. The
//! offset of the own area comes from the global offset table, or is a constant in programs.) The
//! word is written once, by [`publish`]. It is one word because a sequence that armed one area and
//! then read the slot number of another would be unprotected.

use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU64, Ordering};

use super::choice::HotWords;
use crate::area::{TABLE, Word};

global_asm!(
    ".pushsection .data.sheaves_hot,\"aw\",@progbits",
    ".p2align 6",
    ".globl sheaves_hot",
    ".hidden sheaves_hot",
    ".type sheaves_hot,@object",
    "sheaves_hot:",
    ".long 0, 24",
    ".zero 56",
    ".size sheaves_hot, 64",
    ".popsection",
);

unsafe extern "C" {
    static sheaves_hot: AtomicU64;
}

const _: () = {
    assert!(sheaves_sys::rseq::SEQUENCE_OFFSET == 8);
    assert!(sheaves_sys::rseq::CONCURRENCY_ID_OFFSET == 24);
    assert!(sheaves_sys::rseq::SIGNATURE == 0x5305_3053);
    assert!(crate::sheaf::SHEAF_BYTES == 1024);
};

/// The parts that all sequences share. `$body` runs with the block's address in `{block}` and
/// ends with the one committing store; leaving early is a jump to label 5.
macro_rules! sequence {
    ([$($body:literal),+ $(,)?], $($operands:tt)*) => {
        asm!(
            // The descriptor: version, flags, start, length, abort handler.
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "3: .long 0, 0",
            ".quad 4f, 5f - 4f, 6f",
            ".popsection",
            // The abort handler, behind its signature (an undefined instruction that carries it).
            ".pushsection .text.sheaves_abort, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "6: jmp 2f",
            ".popsection",
            "2: mov {block}, qword ptr [rip + sheaves_hot]",
            "lea {scratch}, [rip + 3b]",
            "movsxd {cursor}, {block:e}",
            "add {cursor}, qword ptr [rip + sheaves_thread@GOTTPOFF]",
            "shr {block}, 32",
            "mov qword ptr fs:[{cursor} + 8], {scratch}",
            "4: movsxd {cursor}, dword ptr fs:[{cursor} + {block}]",
            "lea {block}, [rip + {table} + 16]",
            "mov {block}, qword ptr [{block} + 8*{cursor}]",
            $($body,)+
            "5:",
            table = sym TABLE,
            $($operands)*
        )
    };
}

#[inline(always)]
pub(crate) fn pop(word: Word) -> usize {
    let object: usize;
    // SAFETY: the sequence keeps rules 1-6 of this file. It reads the current slot's cursor and
    // the entry under it (mapped memory) and commits the cursor one entry lower, which gives the
    // object to this thread alone.
    unsafe {
        sequence!(
            [
                "mov {cursor}, qword ptr [{block} + {offset}]",
                "mov {scratch}, qword ptr [{cursor}]",
                "test {scratch:l}, 1",
                "jnz 5f",
                "sub {cursor}, 8",
                "mov qword ptr [{block} + {offset}], {cursor}",
            ],
            block = out(reg) _,
            cursor = out(reg) _,
            scratch = out(reg) object,
            offset = in(reg) word.offset(),
            options(nostack),
        );
    }
    object
}

#[inline(always)]
pub(crate) unsafe fn push(word: Word, object: usize) -> bool {
    let above: usize;
    // SAFETY: the sequence keeps rules 1-6 of this file. The entry above the cursor is free, so
    // writing it before the commit is harmless; the commit hands the object to the slot. The
    // caller owns the object.
    unsafe {
        sequence!(
            [
                "mov {cursor}, qword ptr [{block} + {offset}]",
                "add {cursor}, 8",
                "test {cursor:e}, 1023",
                "jz 5f",
                "mov qword ptr [{cursor}], {object}",
                "mov qword ptr [{block} + {offset}], {cursor}",
            ],
            block = out(reg) _,
            cursor = out(reg) above,
            scratch = out(reg) _,
            object = in(reg) object,
            offset = in(reg) word.offset(),
            options(nostack),
        );
    }
    above & (crate::sheaf::SHEAF_BYTES - 1) != 0
}

pub(crate) unsafe fn cmp_store(word: Word, expected: usize, new: usize) -> bool {
    let found: usize;
    // SAFETY: the sequence keeps rules 1-6 of this file. It stores only when the word holds
    // `expected`, which is never the bootstrap cursor, so read-only memory is not written.
    unsafe {
        sequence!(
            [
                "mov {cursor}, qword ptr [{block} + {offset}]",
                "cmp {cursor}, {expected}",
                "jne 5f",
                "mov qword ptr [{block} + {offset}], {new}",
            ],
            block = out(reg) _,
            cursor = out(reg) found,
            scratch = out(reg) _,
            expected = in(reg) expected,
            new = in(reg) new,
            offset = in(reg) word.offset(),
            options(nostack),
        );
    }
    found == expected
}

pub(crate) fn add(word: Word, amount: usize) -> bool {
    let bootstrap = crate::area::bootstrap();
    let block: usize;
    // SAFETY: the sequence keeps rules 1-6 of this file; the bootstrap block, which is read-only,
    // is left before the store. The one instruction that adds is the commit.
    unsafe {
        sequence!(
            [
                "cmp {block}, {bootstrap}",
                "je 5f",
                "add qword ptr [{block} + {offset}], {amount}",
            ],
            block = out(reg) block,
            cursor = out(reg) _,
            scratch = out(reg) _,
            bootstrap = in(reg) bootstrap,
            amount = in(reg) amount,
            offset = in(reg) word.offset(),
            options(nostack),
        );
    }
    block != bootstrap
}

/// The calling thread's slot number now; negative when it is not registered.
pub(crate) fn slot() -> i32 {
    let slot: i64;
    // SAFETY: reads the thread's own area; the value is a hint.
    unsafe {
        asm!(
            "mov {field}, qword ptr [rip + sheaves_hot]",
            "movsxd {slot}, {field:e}",
            "add {slot}, qword ptr [rip + sheaves_thread@GOTTPOFF]",
            "shr {field}, 32",
            "movsxd {slot}, dword ptr fs:[{slot} + {field}]",
            field = out(reg) _,
            slot = out(reg) slot,
            options(nostack, readonly),
        );
    }
    i32::try_from(slot).unwrap_or(-1)
}

/// Points the fast path at the area in use.
pub(crate) fn publish(words: HotWords) {
    // SAFETY: defined above; all access is atomic or by the sequences.
    let hot = unsafe { &sheaves_hot };
    let distance = words.area_distance.cast_unsigned() as u64 & 0xFFFF_FFFF;
    // Release pairs with the load at the head of the sequences: on x86-64 every load acquires.
    hot.store(distance | (words.slot_offset as u64) << 32, Ordering::Release);
}
