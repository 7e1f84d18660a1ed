//! What every rseq critical section on x86-64 has: its descriptor, its abort handler, and the
//! instructions that arm it.
//!
//! Labels: 2 restarts, after an abort; 3 is the descriptor; from 4 up to, but not including, 5 is
//! the critical section; 6 is the abort handler.

/// The kernel's `struct rseq_cs` (version, flags, start, length, abort handler), and the abort
/// handler. The signature before the handler is part of an undefined instruction.
#[doc(hidden)]
#[macro_export]
macro_rules! rseq_descriptor {
    () => {
        "
        .pushsection __rseq_cs, \"aw\"
        .balign 32
        3: .long 0, 0
        .quad 4f, 5f - 4f, 6f
        .popsection
        .pushsection .text.sheaves_abort, \"ax\"
        .byte 0x0f, 0xb9, 0x3d
        .long 0x53053053
        6: jmp 2f
        .popsection"
    };
}

/// Arms the critical section by a store to `rseq_cs`, and begins it: loads the slot number.
/// `$address` and `$slot` are registers that it changes.
#[doc(hidden)]
#[macro_export]
macro_rules! rseq_arm {
    ($address:literal, rseq_cs = $rseq_cs:literal, $slot:literal = $slot_offset:literal) => {
        concat!(
            "lea ",
            $address,
            ", [rip + 3b]\n",
            "mov qword ptr fs:[",
            $rseq_cs,
            "], ",
            $address,
            "\n",
            "4: movsxd ",
            $slot,
            ", dword ptr fs:[",
            $slot_offset,
            "]"
        )
    };
}

const _: () = {
    assert!(sheaves_sys::rseq::RSEQ_CS_OFFSET == 8);
    assert!(sheaves_sys::rseq::SIGNATURE == 0x5305_3053);
};
