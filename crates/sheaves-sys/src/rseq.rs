//! Registration of a `struct rseq`: `rseq(2)`, Linux 4.18.
//!
//! glibc 2.35 and later registers one for every thread. This call is for programs where it did not
//! (older glibc, other libc, `GLIBC_TUNABLES=glibc.pthread.rseq=0`).

use core::mem::offset_of;

/// The kernel's `struct rseq`, shared by kernel and user space: 32 bytes, aligned to 32 bytes.
///
/// Fields have the kernel's names. User space may write [`RseqArea::rseq_cs`] only.
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

/// Offset of `rseq_cs` in the area, in bytes.
pub const RSEQ_CS_OFFSET: usize = offset_of!(RseqArea, rseq_cs);
/// Offset of `cpu_id` in the area, in bytes.
pub const CPU_ID_OFFSET: usize = offset_of!(RseqArea, cpu_id);
/// Offset of `mm_cid` in the area, in bytes.
pub const MM_CID_OFFSET: usize = offset_of!(RseqArea, mm_cid);

const _: () = assert!(size_of::<RseqArea>() == 32 && MM_CID_OFFSET == 24);

/// The signature that precedes every abort handler (`RSEQ_SIG`); glibc registers the same one. On
/// aarch64 it is the instruction `brk #0x45e0`.
pub const SIGNATURE: u32 = if cfg!(target_arch = "aarch64") { 0xD428_BC00 } else { 0x5305_3053 };

/// Auxiliary vector entry: how many bytes of `struct rseq` this kernel maintains.
const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;

/// How many bytes of `struct rseq` this kernel maintains: 20 before Linux 6.3, 28 with `mm_cid`.
#[must_use]
pub fn feature_bytes() -> usize {
    // Kernels before 6.3 have no such entry; they maintain the original 20 bytes.
    crate::process::auxiliary(AT_RSEQ_FEATURE_SIZE).max(20)
}

/// Registers `area` for the calling thread. False where the kernel or seccomp refuses, or where the
/// thread has an area already.
///
/// # Safety
/// `area` stays valid and is not moved for the rest of the calling thread's life, and nothing but
/// the kernel writes any field but `rseq_cs`.
#[must_use]
pub unsafe fn register(area: *mut RseqArea) -> bool {
    let bytes = size_of::<RseqArea>();
    // SAFETY: the caller guarantees the lifetime of `area`; the kernel checks its size and
    // alignment.
    unsafe { libc::syscall(libc::SYS_rseq, area, bytes, 0, SIGNATURE) == 0 }
}
