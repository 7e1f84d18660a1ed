//! What the boundary tests know of x86-64: breakpoints, the instruction pointer, where instructions
//! begin, and critical sections with faults.

use iced_x86::{Decoder, DecoderOptions};

use super::traced::Traced;

/// The instruction of a breakpoint.
pub(crate) const BREAKPOINT: [u8; 1] = [0xCC];
/// Bytes from a breakpoint to the instruction pointer of a child that it has stopped.
pub(crate) const PAST_BREAKPOINT: usize = BREAKPOINT.len();

pub(crate) fn ip(thread: Traced) -> usize {
    thread.request(libc::PTRACE_PEEKUSER, ip_offset(), 0).cast_unsigned() as usize
}

pub(crate) fn set_ip(thread: Traced, address: usize) {
    thread.request(libc::PTRACE_POKEUSER, ip_offset(), address);
}

fn ip_offset() -> usize {
    core::mem::offset_of!(libc::user, regs) + core::mem::offset_of!(libc::user_regs_struct, rip)
}

/// Bytes of what arms the sections of whole functions: `lea` of 7 bytes and a store of 4.
pub(crate) const ARM_BYTES: usize = 11;

/// The target of the jump at an address.
pub(crate) fn jump_target(address: usize) -> usize {
    const JUMP_BYTES_MAX: usize = 5;
    let jump = decoder(address, address + JUMP_BYTES_MAX).decode();
    // 0 if it is not a near jump.
    let target = jump.near_branch_target() as usize;
    assert!(target != 0, "{jump:?} at {address:#x}");
    target
}

/// The end of each instruction in a range.
pub(crate) fn instruction_ends(start: usize, end: usize) -> Vec<usize> {
    decoder(start, end)
        .into_iter()
        .map(|instruction| {
            assert!(!instruction.is_invalid(), "at {:#x}", instruction.ip());
            instruction.next_ip() as usize
        })
        .collect()
}

fn decoder(first: usize, end: usize) -> Decoder<'static> {
    let start = core::ptr::with_exposed_provenance::<u8>(first);
    // SAFETY: instructions of this program, which are never written (breakpoints are the child's).
    let code = unsafe { core::slice::from_raw_parts(start, end - first) };
    Decoder::with_ip(64, code, first as u64, DecoderOptions::NONE)
}

/// The instruction that stores the descriptor's address into `rseq_cs`, and one without effect.
macro_rules! arming {
    (true) => {
        "mov qword ptr [{area} + 8], {scratch}"
    };
    (false) => {
        "nop dword ptr [{area} + 8]"
    };
}
pub(crate) use arming;

/// Defines a function with a critical section that pops from a word. `$is_armed`: whether the
/// descriptor's address is stored; `$length`: what the descriptor says.
macro_rules! control_pop {
    ($name:ident, $is_armed:tt, $length:literal) => {
        #[inline(never)]
        fn $name(word: usize, area: usize) -> (usize, usize) {
            let object: usize;
            let truth: usize;
            // SAFETY: `word` holds a cursor of a sheaf that only this process's one thread uses,
            // and `area` is the thread's registered area. The faults damage only the sheaf's
            // contents, which are not used as addresses.
            unsafe {
                core::arch::asm!(
                    ".pushsection control_cs, \"aw\"",
                    ".balign 32",
                    "3: .long 0, 0",
                    concat!(".quad 4f, ", $length, ", 6f"),
                    "8: .quad 4f, 5f, 6f",
                    ".popsection",
                    ".pushsection .text.control_abort, \"ax\"",
                    ".byte 0x0f, 0xb9, 0x3d",
                    ".long 0x53053053",
                    "6: jmp 2f",
                    ".popsection",
                    "lea {truth}, [rip + 8b]",
                    "2: lea {scratch}, [rip + 3b]",
                    $crate::boundaries::machine::arming!($is_armed),
                    "4: mov {cursor}, qword ptr [{word}]",
                    "mov {scratch}, qword ptr [{cursor}]",
                    "test {scratch:l}, 1",
                    "jnz 5f",
                    "sub {cursor}, 8",
                    "9: mov qword ptr [{word}], {cursor}",
                    "5: nop",
                    "7:",
                    word = in(reg) word,
                    area = in(reg) area,
                    truth = out(reg) truth,
                    cursor = out(reg) _,
                    scratch = out(reg) object,
                    options(nostack),
                );
            }
            (object, truth)
        }
    };
}
pub(crate) use control_pop;
