//! The thread's area, at the same offset from the thread pointer in every thread, on architectures
//! whose file `x86_64.rs` or `aarch64.rs` reaches it.

#[cfg_attr(miri, path = "miri.rs")]
#[cfg_attr(all(target_arch = "aarch64", not(miri)), path = "aarch64.rs")]
#[cfg_attr(all(target_arch = "x86_64", not(miri)), path = "x86_64.rs")]
mod arch;

#[cfg(not(sheaves_keys))]
pub use arch::reader;
pub(crate) use arch::weak_address;
pub use arch::{thread_area, thread_pointer};

use super::layout::ThreadArea;
#[cfg(miri)]
use arch::NO_READER;

#[cfg(not(miri))]
core::arch::global_asm!(
    ".pushsection .tdata.sheaves_thread,\"awT\",%progbits",
    ".p2align 6",
    ".globl sheaves_thread_v0",
    ".protected sheaves_thread_v0",
    ".type sheaves_thread_v0,%object",
    "sheaves_thread_v0:",
    ".long 0",    // cpu_id_start
    ".long -1",   // cpu_id: not registered
    ".quad 0",    // rseq_cs
    ".long 0, 0", // flags, node_id
    ".long -1",   // mm_cid: not registered
    ".long 0",    // padding
    ".short -1",  // virtual_slot
    ".byte 0, 0", // locks, bit_locks
    ".long -1",   // no_slot
    ".quad sheaves_no_reader",
    ".zero 16", // shared_sections, online, calls
    ".size sheaves_thread_v0, 64",
    ".popsection",
    ".pushsection .rodata.sheaves_no_reader,\"a\",%progbits",
    ".p2align 6",
    ".globl sheaves_no_reader",
    ".hidden sheaves_no_reader",
    ".type sheaves_no_reader,%object",
    "sheaves_no_reader:",
    ".quad -1, -1",
    ".zero 48",
    ".size sheaves_no_reader, 64",
    ".popsection",
);

#[cfg(not(miri))]
unsafe extern "C" {
    #[link_name = "sheaves_no_reader"]
    static NO_READER: [u64; 8];
}

/// Threads have an area.
pub const HAS_AREA: bool = true;

/// The reader's word of all threads that have none of their own: all ones, never written.
#[inline]
pub fn no_reader() -> *const u64 {
    (&raw const NO_READER).cast()
}

/// Replaces the word that [`reader`] returns if it is `expected`; true if it was.
///
/// One atomic step, also with respect to signal handlers.
#[cfg(not(sheaves_keys))]
#[must_use]
pub fn exchange_reader(expected: *const u64, new: *const u64) -> bool {
    use core::sync::atomic::{AtomicPtr, Ordering};
    let area = thread_area();
    // SAFETY: the area belongs to this thread and lives as long as it.
    let place = unsafe { &raw mut (*area).reader };
    // SAFETY: the field is an aligned pointer, which is read by `reader` and written here.
    let place = unsafe { AtomicPtr::from_ptr(place.cast::<*mut u64>()) };
    let (expected, new) = (expected.cast_mut(), new.cast_mut());
    // Relaxed, both: only this thread and its signal handlers use the field.
    place.compare_exchange(expected, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// True when threads can have a word of their own; here they always can.
#[cfg(not(sheaves_keys))]
pub fn can_have_reader() -> bool {
    true
}

/// Defines functions that read and write a field of the thread's area.
macro_rules! fields {
    ($($(#[$doc:meta])* $field:ident, $set:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $field() -> $type {
            let area = thread_area();
            // SAFETY: the area belongs to this thread, lives as long as it, and has no other
            // reference.
            unsafe { (*area).$field }
        }

        #[doc = concat!("Sets [`", stringify!($field), "`]. Async-signal-safe.")]
        #[inline]
        pub fn $set(value: $type) {
            let area: *mut ThreadArea = thread_area();
            // SAFETY: as above.
            unsafe { (*area).$field = value }
        }
    )*};
}

fields! {
    /// The portable engine's slot of the calling thread, negative before its first use. With the
    /// rseq engine the slot in which it took a slow path last; of a thread without a slot,
    /// [`crate::rseq`] has a note here.
    virtual_slot, set_virtual_slot: i16;
    /// Locks that the calling thread holds, takes or releases.
    locks, set_locks: u8;
    /// Those of [`crate::lock::bits`] that the calling thread holds, takes or releases.
    bit_locks, set_bit_locks: u8;
    /// Open read sections of this thread that are counted in a word shared with other threads,
    /// because there was no memory for a word of its own. Async-signal-safe; a signal handler
    /// restores what it changes.
    shared_sections, set_shared_sections: u32;
    /// Not 0 while the calling thread is online in the sense of liburcu's QSBR flavour.
    online, set_online: u32;
    /// The calling thread's `call_rcu_data`.
    calls, set_calls: *mut core::ffi::c_void;
}
