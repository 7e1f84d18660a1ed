//! Thread-local words of the fast paths, reached by one instruction.
//!
//! Stable Rust compiles `thread_local!` in a shared object to a call. So an architecture with a
//! file here declares an area in assembly, with the initial-exec model: its address is the thread
//! pointer plus a constant that the loader computes. The symbol is protected: a shared object may
//! export it to programs in C, and yet each object that contains this crate has its own area.
//!
//! Other architectures have no area, see `portable.rs`; there the reader's word is the value of a
//! `pthread_key`. With `--cfg sheaves_keys`, for tests, it is that on x86-64, too.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(not(target_arch = "x86_64"), path = "portable.rs")]
mod arch;
#[cfg(any(not(target_arch = "x86_64"), sheaves_keys))]
mod keys;

pub(crate) use arch::dl_find_object;
#[cfg(target_arch = "x86_64")]
pub(crate) use arch::libc_stack_end;
pub use arch::{
    calls, is_single_threaded, locks, no_reader, online, set_calls, set_locks, set_online,
    set_shared_sections, set_stack_low, set_stack_top, set_virtual_slot, shared_sections,
    stack_low, stack_top, thread_pointer, virtual_slot,
};
#[cfg(all(target_arch = "x86_64", not(sheaves_keys)))]
pub use arch::{can_have_reader, exchange_reader, reader};
#[cfg(target_arch = "x86_64")]
pub use arch::{libc_rseq_offset, thread_area};
#[cfg(any(not(target_arch = "x86_64"), sheaves_keys))]
pub use {crate::key::can_have_reader, keys::exchange_reader, keys::reader};

use crate::rseq::RseqArea;

/// The thread-local words: 128 bytes, aligned to 64. The fast paths use the first 64.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ThreadArea {
    /// Registered with the kernel where libc has registered none.
    pub rseq: RseqArea,
    /// See [`virtual_slot()`].
    pub virtual_slot: i16,
    /// See [`locks()`].
    pub locks: u16,
    /// Always -1: read instead of a slot number when the fast path has to fail.
    pub no_slot: i32,
    /// The reader's word of the thread: its RCU read sections. [`no_reader`] before the first one.
    pub reader: *const u64,
    /// See [`shared_sections()`].
    pub shared_sections: u32,
    /// See [`online()`]. Read by the header of the C API.
    pub online: u32,
    /// See [`calls()`].
    pub calls: *mut core::ffi::c_void,
    /// See [`stack_low()`].
    pub stack_low: usize,
    /// See [`stack_low()`].
    pub stack_top: usize,
}

const _: () = assert!(size_of::<ThreadArea>() == 128);
const _: () = assert!(core::mem::offset_of!(ThreadArea, stack_low) == 64);

/// Offset of [`ThreadArea::no_slot`] in the area, in bytes.
pub const NO_SLOT_OFFSET: usize = core::mem::offset_of!(ThreadArea, no_slot);
