//! Critical sections with deliberate faults, to show that the procedure finds them, and one
//! without.
//!
//! They pop from one word of the board, so that their code differs from the real ones. For the same
//! reason their descriptors are in an ELF section of another name.

use core::arch::asm;
use core::sync::atomic::AtomicUsize;

use super::sections::Section;

/// The fault of a critical section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The descriptor is not stored into `rseq_cs`.
    Unarmed,
    /// The commit is not covered.
    EndsEarly,
    /// One instruction after the commit is covered.
    EndsLate,
}

impl Fault {
    pub(crate) const ALL: [Fault; 4] =
        [Fault::None, Fault::Unarmed, Fault::EndsEarly, Fault::EndsLate];
}

/// The real boundaries of a critical section, whatever its descriptor says.
#[repr(C)]
struct Truth {
    start: usize,
    end: usize,
    abort: usize,
}

macro_rules! control_pop {
    ($name:ident, $arm:literal, $length:literal) => {
        #[inline(never)]
        fn $name(word: usize, area: usize) -> (usize, usize) {
            let object: usize;
            let truth: usize;
            // SAFETY: `word` holds a cursor of a sheaf that only this process's one thread uses,
            // and `area` is the thread's registered area. The faults damage only the sheaf's
            // contents, which are not used as addresses.
            unsafe {
                asm!(
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
                    $arm,
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

control_pop!(without_fault, "mov qword ptr [{area} + 8], {scratch}", "5f - 4f");
control_pop!(unarmed, "nop dword ptr [{area} + 8]", "5f - 4f");
control_pop!(ends_early, "mov qword ptr [{area} + 8], {scratch}", "9f - 4f");
control_pop!(ends_late, "mov qword ptr [{area} + 8], {scratch}", "7f - 4f");

fn call(fault: Fault, word: usize) -> (usize, usize) {
    let area = area();
    match fault {
        Fault::None => without_fault(word, area),
        Fault::Unarmed => unarmed(word, area),
        Fault::EndsEarly => ends_early(word, area),
        Fault::EndsLate => ends_late(word, area),
    }
}

/// The area of the calling thread that is registered with the kernel: libc's or this project's.
fn area() -> usize {
    match sheaves_sys::tls::libc_rseq_offset() {
        Some(offset) => sheaves_sys::tls::thread_pointer().wrapping_add_signed(offset),
        None => sheaves_sys::tls::thread_area().expose_provenance(),
    }
}

/// Pops the last object of the sheaf whose cursor is in `word`; odd when there is none.
pub(crate) fn pop(fault: Fault, word: &AtomicUsize) -> usize {
    call(fault, word.as_ptr().expose_provenance()).0
}

/// The critical section of [`pop`].
pub(crate) fn section(fault: Fault) -> Section {
    let empty = AtomicUsize::new(crate::sheaves::Sheaf::make());
    let truth = call(fault, empty.as_ptr().expose_provenance()).1;
    let truth = core::ptr::with_exposed_provenance::<Truth>(truth);
    // SAFETY: the three words that the assembler emitted and the loader relocated.
    let Truth { start, end, abort } = unsafe { truth.read() };
    Section::new(start, end, abort)
}
