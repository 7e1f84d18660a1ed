//! The abort handler of rseq critical sections on aarch64, and the instructions that arm one.

/// The abort handler, behind the signature: an instruction that traps.
#[doc(hidden)]
#[macro_export]
macro_rules! rseq_abort {
    ($target:literal) => {
        concat!(
            "
        .inst 0xd428bc00
        6: b ",
            $target
        )
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
            concat!("adrp ", $address, ", 3b\n"),
            concat!("add ", $address, ", ", $address, ", :lo12:3b\n"),
            concat!("str ", $address, ", [", $thread, ", ", $rseq_cs, "]\n"),
            concat!("4: ldrsw ", $slot, ", [", $thread, ", ", $slot_offset, "]"),
        )
    };
}

const _: () = assert!(sheaves_sys::rseq::SIGNATURE == 0xD428_BC00);
