//! What every rseq critical section has: its descriptor, its abort handler, and the instructions
//! that arm it. The last two are in `section_x86_64.rs` and `section_aarch64.rs`.
//!
//! Labels: 2 restarts, after an abort; 3 is the descriptor; from 4 up to, but not including, 5 is
//! the critical section; 6 is the abort handler.

#[cfg_attr(target_arch = "aarch64", path = "section_aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "section_x86_64.rs")]
mod code;

/// The kernel's `struct rseq_cs` (version, flags, start, length, abort handler), and the abort
/// handler behind the signature, which starts over; or jumps to `abort`.
#[doc(hidden)]
#[macro_export]
macro_rules! rseq_descriptor {
    () => {
        $crate::rseq_descriptor!(abort = "2f")
    };
    (abort = $target:literal) => {
        concat!(
            "
        .pushsection __rseq_cs, \"aw\"
        .balign 32
        3: .long 0, 0
        .quad 4f, 5f - 4f, 6f
        .popsection
        .pushsection .text.sheaves_abort, \"ax\"",
            $crate::rseq_abort!($target),
            "
        .popsection"
        )
    };
}

const _: () = assert!(sheaves_sys::rseq::RSEQ_CS_OFFSET == 8);
