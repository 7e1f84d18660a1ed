//! The layout of the thread-local words, the same on every architecture.

/// The kernel's `struct rseq`, shared by kernel and user space: 32 bytes, aligned to 32 bytes.
///
/// Fields have the kernel's names. User space may write [`RseqArea::rseq_cs`] only, as long as the
/// area is registered.
#[repr(C, align(32))]
#[derive(Debug)]
pub struct RseqArea {
    /// A valid CPU number, 0 while unregistered. Written by the kernel.
    pub cpu_id_start: u32,
    /// The current CPU, negative while unregistered. Written by the kernel.
    pub cpu_id: i32,
    /// Address of the descriptor of the critical section that runs now, 0 for none.
    pub rseq_cs: u64,
    /// Always 0.
    pub flags: u32,
    /// NUMA node (feature size >= 24). Written by the kernel.
    pub node_id: u32,
    /// Concurrency id: dense, below the number of threads that run (feature size >= 28, Linux 6.3).
    /// Written by the kernel.
    pub mm_cid: i32,
    padding: u32,
}

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
