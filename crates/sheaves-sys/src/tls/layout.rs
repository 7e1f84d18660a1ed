//! The layout of the thread-local words, the same on every architecture.

use crate::rseq::RseqArea;

/// The thread-local words: 64 bytes, a cache line.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ThreadArea {
    /// Registered with the kernel where libc has registered none.
    pub rseq: RseqArea,
    /// See [`virtual_slot()`](super::virtual_slot()).
    pub virtual_slot: i16,
    /// See [`locks()`](super::locks()).
    pub locks: u8,
    /// See [`bit_locks()`](super::bit_locks()).
    pub bit_locks: u8,
    /// Always -1: read instead of a slot number when the fast path has to fail.
    pub no_slot: i32,
    /// The reader's word of the thread: its RCU read sections. [`no_reader`] before the first one.
    ///
    /// [`no_reader`]: super::no_reader
    pub reader: *const u64,
    /// See [`shared_sections()`](super::shared_sections()).
    pub shared_sections: u32,
    /// See [`online()`](super::online()). Read by the header of the C API.
    pub online: u32,
    /// See [`calls()`](super::calls()).
    pub calls: *mut core::ffi::c_void,
}

const _: () = assert!(size_of::<ThreadArea>() == 64);

/// Offset of [`ThreadArea::no_slot`] in the area, in bytes.
pub const NO_SLOT_OFFSET: usize = core::mem::offset_of!(ThreadArea, no_slot);
