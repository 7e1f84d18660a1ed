//! Critical sections with deliberate faults, to show that the procedure finds them, and one
//! without.
//!
//! They pop from one word of the board, so that their code differs from the real ones. For the same
//! reason their descriptors are in an ELF section of another name.

use core::sync::atomic::AtomicUsize;

use super::machine::control_pop;
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

control_pop!(without_fault, true, "5f - 4f");
control_pop!(unarmed, false, "5f - 4f");
control_pop!(ends_early, true, "9f - 4f");
control_pop!(ends_late, true, "7f - 4f");

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
