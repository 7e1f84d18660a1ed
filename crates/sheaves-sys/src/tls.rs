//! The thread's own words, reached by one instruction, and the words of the fast path.
//!
//! Stable Rust compiles `thread_local!` in a shared object to a call, so the area is declared in
//! assembly with the initial-exec model: thread pointer plus a constant that the loader computes.
//!
//! On other architectures there is no area: libc's thread handle stands in for the thread
//! pointer and the slot of the portable engine is a hash of it.

use crate::rseq::RseqArea;

/// What every thread has: 64 bytes, aligned to 64.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ThreadArea {
    /// Registered with the kernel where libc did not register one of its own.
    pub rseq: RseqArea,
    /// The portable engine's slot for this thread, negative before its first use.
    pub virtual_slot: i32,
    /// Always -1: read as slot number where the fast path is to refuse.
    pub no_slot: i32,
    reserved: [u32; 6],
}

const _: () = assert!(size_of::<ThreadArea>() == 64);

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .tdata.sheaves_thread,\"awT\",@progbits",
    ".p2align 6",
    ".globl sheaves_thread",
    ".hidden sheaves_thread",
    ".type sheaves_thread,@object",
    "sheaves_thread:",
    ".long 0",    // processor_start
    ".long -1",   // processor: not registered
    ".quad 0",    // sequence
    ".long 0, 0", // flags, node
    ".long -1",   // concurrency_id: not registered
    ".long 0",    // padding
    ".long -1",   // virtual_slot
    ".long -1",   // no_slot
    ".zero 24",   // reserved
    ".size sheaves_thread, 64",
    ".popsection",
);

/// Offset of [`ThreadArea::no_slot`] in the area, in bytes.
pub const NO_SLOT_OFFSET: usize = core::mem::offset_of!(ThreadArea, no_slot);

/// The calling thread's area.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn thread_area() -> *mut ThreadArea {
    let address: usize;
    // SAFETY: reads the thread pointer and a loader-computed constant; no memory is written.
    unsafe {
        core::arch::asm!(
            "mov {address}, qword ptr [rip + sheaves_thread@GOTTPOFF]",
            "add {address}, qword ptr fs:[0]",
            address = out(reg) address,
            options(nostack, pure, readonly),
        );
    }
    core::ptr::with_exposed_provenance_mut(address)
}

/// The portable engine's slot of the calling thread, negative before its first use.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn virtual_slot() -> i32 {
    let area = thread_area();
    // SAFETY: the area belongs to this thread, lives as long as it, and has no other reference.
    unsafe { (*area).virtual_slot }
}

/// Remembers the portable engine's slot of the calling thread.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn set_virtual_slot(slot: i32) {
    let area = thread_area();
    // SAFETY: the area belongs to this thread, lives as long as it, and has no other reference.
    unsafe { (*area).virtual_slot = slot }
}

/// The portable engine's slot of the calling thread: a hash of the thread.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn virtual_slot() -> i32 {
    let hash = (thread_pointer() as u64 >> 12).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash >> 33) as i32
}

/// Nothing is remembered on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub fn set_virtual_slot(_slot: i32) {}

/// A word that differs between the threads that are alive.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn thread_pointer() -> usize {
    // SAFETY: pthread_self has no precondition.
    unsafe { libc::pthread_self() as usize }
}

/// The thread pointer, the base of all thread-local offsets.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn thread_pointer() -> usize {
    let address: usize;
    // SAFETY: `fs:[0]` holds the thread pointer itself (x86-64 TLS ABI).
    unsafe {
        core::arch::asm!(
            "mov {address}, qword ptr fs:[0]",
            address = out(reg) address,
            options(nostack, preserves_flags, pure, readonly),
        );
    }
    address
}

/// libc's rseq area as an offset from the thread pointer, or `None` where libc registered none.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn libc_rseq_offset() -> Option<isize> {
    let (offset, size): (*const isize, *const u32);
    // SAFETY: loads two addresses that the linker leaves null where libc lacks the symbols.
    unsafe {
        core::arch::asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {size}, qword ptr [rip + __rseq_size@GOTPCREL]",
            offset = out(reg) offset,
            size = out(reg) size,
            options(nostack, preserves_flags, pure, readonly),
        );
    }
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: libc's constant, set before any program code runs.
    let registered = unsafe { size.read_volatile() } > 0;
    // SAFETY: as above.
    let offset = unsafe { offset.read_volatile() };
    registered.then_some(offset)
}
