//! Registration of a restartable-sequence area: `rseq(2)`, Linux 4.18.
//!
//! glibc 2.35 and later registers an area for every thread; this call is for programs where it
//! did not (older glibc, other libc, `GLIBC_TUNABLES=glibc.pthread.rseq=0`).

/// The area that the kernel and user space share, 32 bytes aligned to 32 bytes.
///
/// User space may write [`RseqArea::sequence`] only; the kernel writes the rest.
#[repr(C, align(32))]
#[derive(Debug)]
pub struct RseqArea {
    /// Processor id, 0 while unregistered. Read-only.
    pub processor_start: u32,
    /// Processor id, negative while unregistered. Read-only.
    pub processor: i32,
    /// Address of the descriptor of the sequence that runs now.
    pub sequence: u64,
    /// Always 0.
    pub flags: u32,
    /// NUMA node (feature size >= 24). Read-only.
    pub node: u32,
    /// Concurrency id: dense, below the number of threads that run (feature size >= 28, Linux
    /// 6.3). Read-only.
    pub concurrency_id: i32,
    padding: u32,
}

/// Offset of `rseq_cs` in the area, in bytes.
pub const RSEQ_CS_OFFSET: usize = 8;
/// Offset of `cpu_id` in the area, in bytes.
pub const CPU_ID_OFFSET: usize = 4;
/// Offset of `mm_cid` in the area, in bytes.
pub const MM_CID_OFFSET: usize = 24;

const _: () = {
    assert!(size_of::<RseqArea>() == 32);
    assert!(core::mem::offset_of!(RseqArea, processor) == CPU_ID_OFFSET);
    assert!(core::mem::offset_of!(RseqArea, sequence) == RSEQ_CS_OFFSET);
    assert!(core::mem::offset_of!(RseqArea, concurrency_id) == MM_CID_OFFSET);
};

/// The number that must stand before every abort handler; glibc registers the same one.
pub const SIGNATURE: u32 = 0x5305_3053;

/// `AT_RSEQ_FEATURE_SIZE`: how many bytes of the area this kernel fills.
const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;

/// How many bytes of the area this kernel fills: 20 before Linux 6.3, 28 with concurrency ids.
#[must_use]
pub fn feature_bytes() -> usize {
    // Kernels before 6.3 have no such entry; they fill the original 20 bytes.
    crate::process::auxiliary(AT_RSEQ_FEATURE_SIZE).max(20)
}

/// Registers `area` for the calling thread. False where the kernel or seccomp refuses, or where
/// the thread has an area already.
///
/// # Safety
/// `area` stays valid and at its place for the rest of the calling thread's life, and nobody
/// but the kernel writes any field but `sequence`.
#[must_use]
pub unsafe fn register(area: *mut RseqArea) -> bool {
    let bytes = size_of::<RseqArea>();
    // SAFETY: the caller guarantees the lifetime of `area`; the kernel checks the rest.
    unsafe { libc::syscall(libc::SYS_rseq, area, bytes, 0, SIGNATURE) == 0 }
}
