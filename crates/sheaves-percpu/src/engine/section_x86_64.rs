//! The abort handler of rseq critical sections on x86-64, and the instructions that arm one.

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
