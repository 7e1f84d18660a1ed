//! `pop` and `push` as bodies of whole functions, for callers that use a C symbol.
//!
//! `entry_x86_64.rs` says why they exist, how they differ from the inlined forms, and what their
//! parameters are. Here they change registers 9 to 15 only, which the procedure call standard lets
//! a function change, and keep the argument, in register 0, until the commit. A conditional branch
//! reaches less far than a slow path may be, so each leaves by a branch of its own at label 7.

/// Pops an object from the word that a table gives for a size.
///
/// The limit is read by an Acquire load: a thread that finds it raised also finds all else that the
/// start has written.
#[macro_export]
macro_rules! pop_by_size {
    (table = $table:path, slow = $slow:path) => {
        ::core::arch::naked_asm!(
            $crate::rseq_descriptor!(abort = "{slow}"),
            "adrp x9, {data} + {in_page}",
            "add x9, x9, :lo12:{data} + {in_page}",
            "add x10, x9, {limit}",
            "ldar x10, [x10]",
            "cmp x0, x10",
            "b.hs 7f",
            "add x10, x0, #15",
            "lsr x10, x10, #4",
            "adrp x11, {table} + {in_page}",
            "add x11, x11, :lo12:{table} + {in_page}",
            "ldrh w10, [x11, x10, lsl #1]",
            "ldp x11, x12, [x9]",
            "mrs x13, tpidr_el0",
            "add x14, x9, {bases}",
            $crate::rseq_arm!("x9", thread = "x13", rseq_cs = "x11", "x15" = "x12"),
            "ldr x15, [x14, x15, lsl #3]",
            "add x10, x10, x15",
            "ldr x15, [x10]",
            "ldr x9, [x15]",
            "tbnz x9, #0, 7f",
            "sub x15, x15, #8",
            "str x15, [x10]",
            "5: mov x0, x9",
            "ret",
            "7: b {slow}",
            ".p2align 6",
            table = sym $table,
            slow = sym $slow,
            data = sym $crate::internal::TABLE,
            limit = const ::core::mem::offset_of!($crate::internal::Table, fast_bytes_end),
            in_page = const $crate::internal::IN_PAGE,
            bases = const $crate::internal::ENTRY_0,
        )
    };
}

/// Pushes an object to the word that an owner map gives for its address.
///
/// The fields are read by plain loads: an object reached the caller by a path that is ordered after
/// the start, and after its entry of the map.
#[macro_export]
macro_rules! push_by_address {
    (slow = $slow:path) => {
        ::core::arch::naked_asm!(
            $crate::rseq_descriptor!(abort = "{slow}"),
            "adrp x9, {data} + {in_page}",
            "add x9, x9, :lo12:{data} + {in_page}",
            "ldp x11, x12, [x9, {window}]",
            "sub x10, x0, x11",
            "cmp x10, x12",
            "b.hs 7f",
            "tst x0, #15",
            "b.ne 7f",
            "lsr x10, x10, #16",
            "ldrh w10, [x11, x10, lsl #1]",
            "ldp x11, x12, [x9]",
            "mrs x13, tpidr_el0",
            "add x14, x9, {bases}",
            $crate::rseq_arm!("x9", thread = "x13", rseq_cs = "x11", "x15" = "x12"),
            "ldr x15, [x14, x15, lsl #3]",
            "add x10, x10, x15",
            "ldr x15, [x10]",
            "add x15, x15, #8",
            "tst x15, #1023",
            "b.eq 7f",
            "str x0, [x15]",
            "str x15, [x10]",
            "5: ret",
            "7: b {slow}",
            ".p2align 6",
            slow = sym $slow,
            data = sym $crate::internal::TABLE,
            window = const {
                let window = ::core::mem::offset_of!($crate::internal::Table, window);
                let end = ::core::mem::offset_of!($crate::internal::Table, heap_bytes_end);
                assert!(end == window + 8);
                window
            },
            in_page = const $crate::internal::IN_PAGE,
            bases = const $crate::internal::ENTRY_0,
        )
    };
}
