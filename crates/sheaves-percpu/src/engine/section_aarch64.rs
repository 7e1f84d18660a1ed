//! What every rseq critical section on aarch64 has: its descriptor, its abort handler, and the
//! instructions that arm it.
//!
//! The labels are those of `section_x86_64.rs`: 2 restarts, after an abort; 3 is the descriptor;
//! from 4 up to, but not including, 5 is the critical section; 6 is the abort handler.

/// The kernel's `struct rseq_cs` (version, flags, start, length, abort handler), and the abort
/// handler. The signature before the handler is an instruction that traps.
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
        .inst 0xd428bc00
        6: b 2f
        .popsection"
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
            "adrp ",
            $address,
            ", 3b\n",
            "add ",
            $address,
            ", ",
            $address,
            ", :lo12:3b\n",
            "str ",
            $address,
            ", [",
            $thread,
            ", ",
            $rseq_cs,
            "]\n",
            "4: ldrsw ",
            $slot,
            ", [",
            $thread,
            ", ",
            $slot_offset,
            "]"
        )
    };
}

const _: () = {
    assert!(sheaves_sys::rseq::RSEQ_CS_OFFSET == 8);
    assert!(sheaves_sys::rseq::SIGNATURE == 0xD428_BC00);
};
