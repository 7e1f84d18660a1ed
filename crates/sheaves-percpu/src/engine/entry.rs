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
//! registers that the C ABI lets a function change, and keep the argument for the slow path.

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
            $crate::pop_instructions!(),
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
/// nothing may be pushed, it is the offset of a word that is always vacant. Both fields are read by
/// plain loads: an object reached the caller by a path that is ordered after the start, and after
/// its entry of the map.
///
/// `slow`: `extern "C"` function of the same type, for everything else, including every address
/// that is not a multiple of 16.
#[macro_export]
macro_rules! push_by_address {
    (slow = $slow:path) => {
        ::core::arch::naked_asm!(
            $crate::rseq_descriptor!(abort = "{slow}"),
            $crate::push_instructions!(),
            slow = sym $slow,
            data = sym $crate::internal::TABLE,
            window = const ::core::mem::offset_of!($crate::internal::Table, window),
            in_page = const $crate::internal::IN_PAGE,
            bases = const $crate::internal::ENTRY_0,
        )
    };
}
