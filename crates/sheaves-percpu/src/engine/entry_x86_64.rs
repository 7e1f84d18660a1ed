//! `pop` and `push` as bodies of whole functions, for callers that use a C symbol.
//!
//! `malloc` and `free` are called out of line millions of times a second. As Rust functions around
//! [`super::pop`] and [`super::push`] they would test every outcome twice, because inline assembly
//! cannot both return a result and jump. As *naked* functions they jump from the rseq critical
//! section directly to the slow path. The critical sections follow the rules of `rseq.rs`,
//! with two differences: the word's address replaces its offset in the register, and an abort goes
//! to the slow path, too, whose argument is unchanged. So a thread that has changed CPUs is noticed
//! where nothing else takes the slow path.
//!
//! Before the heap's start both ends are 0, so nothing else is read. The functions change only
//! registers that the System V ABI lets a function change, and keep the argument for the slow path.

/// The body of a naked `extern "C" fn(usize) -> *mut u8`: pops an object from the word that a table
/// gives for a size.
///
/// - `table`: static [`InPage`](crate::table::InPage) of an array of `u16`: the word's offset for
///   each size, in units of 16 bytes, rounded up. It covers the sizes below `fast_bytes_end` of
///   [`Table`](crate::table::Table).
/// - `slow`: `extern "C"` function of the same type, for everything else.
#[macro_export]
macro_rules! pop_by_size {
    (table = $table:path, slow = $slow:path) => {
        ::core::arch::naked_asm!(
            $crate::rseq_descriptor!(abort = "{slow}"),
            "cmp rdi, qword ptr [rip + {data} + {in_page} + {limit}]",
            "jae {slow}",
            "lea rax, [rdi + 15]",
            "shr rax, 4",
            "lea rcx, [rip + {table} + {in_page}]",
            "movzx ecx, word ptr [rcx + 2*rax]",
            "mov rdx, qword ptr [rip + {data} + {in_page}]",
            "mov rsi, qword ptr [rip + {data} + {in_page} + 8]",
            "lea r8, [rip + {data} + {in_page} + {bases}]",
            $crate::rseq_arm!("rax", rseq_cs = "rdx", "r10" = "rsi"),
            "add rcx, qword ptr [r8 + 8*r10]",
            "mov r10, qword ptr [rcx]",
            "mov rax, qword ptr [r10]",
            "test al, 1",
            "jnz {slow}",
            "sub r10, 8",
            "mov qword ptr [rcx], r10",
            "5: ret",
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

/// The body of a naked `extern "C" fn(*mut u8)`: pushes an object to the word that an owner map
/// gives for its address.
///
/// The map starts at the address `window` of [`Table`](crate::table::Table), covers
/// `heap_bytes_end` from there on, and has a `u16` per 64 KiB: the offset of the word. Where
/// nothing may be pushed, it is the offset of a word that is always vacant.
///
/// `slow`: `extern "C"` function of the same type, for everything else, including every address
/// that is not a multiple of 16.
#[macro_export]
macro_rules! push_by_address {
    (slow = $slow:path) => {
        ::core::arch::naked_asm!(
            $crate::rseq_descriptor!(abort = "{slow}"),
            "mov rax, qword ptr [rip + {data} + {in_page} + {window}]",
            "mov rcx, rdi",
            "sub rcx, rax",
            "cmp rcx, qword ptr [rip + {data} + {in_page} + {end}]",
            "jae {slow}",
            "test dil, 15",
            "jnz {slow}",
            "shr rcx, 16",
            "movzx ecx, word ptr [rax + 2*rcx]",
            "mov rdx, qword ptr [rip + {data} + {in_page}]",
            "mov rsi, qword ptr [rip + {data} + {in_page} + 8]",
            "lea r8, [rip + {data} + {in_page} + {bases}]",
            $crate::rseq_arm!("rax", rseq_cs = "rdx", "r10" = "rsi"),
            "add rcx, qword ptr [r8 + 8*r10]",
            "mov r10, qword ptr [rcx]",
            "add r10, 8",
            "test r10d, 1023",
            "jz {slow}",
            "mov qword ptr [r10], rdi",
            "mov qword ptr [rcx], r10",
            "5: ret",
            ".p2align 6",
            slow = sym $slow,
            data = sym $crate::internal::TABLE,
            window = const ::core::mem::offset_of!($crate::internal::Table, window),
            end = const ::core::mem::offset_of!($crate::internal::Table, heap_bytes_end),
            in_page = const $crate::internal::IN_PAGE,
            bases = const $crate::internal::ENTRY_0,
        )
    };
}
