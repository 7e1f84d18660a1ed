//! What the boundary tests know of aarch64: the same as in `machine_x86_64.rs`.

use super::traced::{Request, Traced};

/// The instruction `brk #0`.
pub(crate) const BREAKPOINT: [u8; 4] = 0xD420_0000_u32.to_le_bytes();
/// A child that a breakpoint has stopped is at it.
pub(crate) const PAST_BREAKPOINT: usize = 0;

pub(crate) fn ip(thread: Traced) -> usize {
    registers(thread).pc as usize
}

pub(crate) fn set_ip(thread: Traced, address: usize) {
    let mut registers = registers(thread);
    registers.pc = address as u64;
    transfer(thread, libc::PTRACE_SETREGSET, &mut registers);
}

fn registers(thread: Traced) -> libc::user_regs_struct {
    // SAFETY: all-zero registers are valid.
    let mut registers = unsafe { core::mem::zeroed() };
    transfer(thread, libc::PTRACE_GETREGSET, &mut registers);
    registers
}

/// Copies the general registers from or to the child.
fn transfer(thread: Traced, request: Request, registers: &mut libc::user_regs_struct) {
    let bytes = size_of_val(registers);
    let mut range = libc::iovec { iov_base: (&raw mut *registers).cast(), iov_len: bytes };
    let general = libc::NT_PRSTATUS as usize;
    thread.request(request, general, (&raw mut range).expose_provenance());
    assert_eq!(range.iov_len, bytes);
}

/// Bytes of what arms the sections of whole functions: three instructions.
pub(crate) const ARM_BYTES: usize = 12;

/// The target of the jump at an address.
pub(crate) fn jump_target(address: usize) -> usize {
    let code = core::ptr::with_exposed_provenance::<u32>(address);
    // SAFETY: an instruction of this program, which is never written.
    let instruction = unsafe { code.read() };
    assert_eq!(instruction >> 26, 0b00_0101, "not a jump: {instruction:#x} at {address:#x}");
    // The lowest 26 bits are the signed distance, in instructions.
    address.wrapping_add_signed(((instruction << 6).cast_signed() >> 6) as isize * 4)
}

/// The end of each instruction in a range: all of them have four bytes.
pub(crate) fn instruction_ends(start: usize, end: usize) -> Vec<usize> {
    (start + 4..=end).step_by(4).collect()
}

/// The instruction that stores the descriptor's address into `rseq_cs`, and one without effect.
macro_rules! arming {
    (true) => {
        "str {scratch}, [{area}, #8]"
    };
    (false) => {
        "prfm pldl1keep, [{area}, #8]"
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
                    ".inst 0xd428bc00",
                    "6: b 2f",
                    ".popsection",
                    "adrp {truth}, 8b",
                    "add {truth}, {truth}, :lo12:8b",
                    "2: adrp {scratch}, 3b",
                    "add {scratch}, {scratch}, :lo12:3b",
                    $crate::boundaries::machine::arming!($is_armed),
                    "4: ldr {cursor}, [{word}]",
                    "ldr {scratch}, [{cursor}]",
                    "tbnz {scratch}, #0, 5f",
                    "sub {cursor}, {cursor}, #8",
                    "9: str {cursor}, [{word}]",
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
