//! The thread's own words, reached by one instruction, and the words of the fast path.
//!
//! Stable Rust compiles `thread_local!` in a shared object to a call, so the area is declared in
//! assembly with the initial-exec model: thread pointer plus a constant that the loader computes.
//!
//! Its symbol is protected: a shared object may export it to programs in C, and yet each object
//! that holds this crate has an area of its own and never takes that of another.
//!
//! On other architectures there is no area: libc's thread handle stands in for the thread
//! pointer and the slot of the portable engine is a hash of it. The reader's word is the value of a
//! key; `--cfg sheaves_keys` has it so on x86-64, too, for tests.

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
    /// The word that tells whether the thread reads under RCU: [`no_reader`] before its first use.
    pub reader: *const u64,
    /// Open read sections of this thread that have no word of their own: see [`shared_sections`].
    pub shared_sections: u32,
    /// Not 0 while the thread counts as a reader from one quiescent state to the next, which the
    /// C API does for one kind of liburcu's programs.
    pub is_online: u32,
    /// What such programs keep for the thread: where its calls go. Only handed back to them.
    pub calls: *mut core::ffi::c_void,
}

const _: () = assert!(size_of::<ThreadArea>() == 64);

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .tdata.sheaves_thread,\"awT\",@progbits",
    ".p2align 6",
    ".globl sheaves_thread",
    ".protected sheaves_thread",
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
    ".quad sheaves_no_reader",
    ".zero 16", // shared_sections, is_online, calls
    ".size sheaves_thread, 64",
    ".popsection",
    ".pushsection .rodata.sheaves_no_reader,\"a\",@progbits",
    ".p2align 6",
    ".globl sheaves_no_reader",
    ".hidden sheaves_no_reader",
    ".type sheaves_no_reader,@object",
    "sheaves_no_reader:",
    ".quad -1, -1",
    ".zero 48",
    ".size sheaves_no_reader, 64",
    ".popsection",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    #[link_name = "sheaves_no_reader"]
    static NO_READER: u64;
}

/// The words of all threads that have none of their own: two of all ones, never written.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn no_reader() -> *const u64 {
    &raw const NO_READER
}

/// The word that tells whether the calling thread reads under RCU; [`no_reader`] while it has none.
/// Two loads, and no call. Async-signal-safe.
#[cfg(all(target_arch = "x86_64", not(sheaves_keys)))]
#[inline(always)]
#[must_use]
pub fn reader() -> *const u64 {
    let address: usize;
    // SAFETY: loads a loader-computed constant and a field of the thread's area.
    unsafe {
        core::arch::asm!(
            "mov {address}, qword ptr [rip + sheaves_thread@GOTTPOFF]",
            "mov {address}, qword ptr fs:[{address} + {reader}]",
            address = out(reg) address,
            reader = const core::mem::offset_of!(ThreadArea, reader),
            options(nostack, pure, readonly),
        );
    }
    core::ptr::with_exposed_provenance(address)
}

/// Gives the calling thread another word for [`reader`] if it has `expected` now; whether it did.
///
/// One atomic step, also for a signal handler that comes in between.
#[cfg(all(target_arch = "x86_64", not(sheaves_keys)))]
#[must_use]
pub fn exchange_reader(expected: *const u64, new: *const u64) -> bool {
    use core::sync::atomic::{AtomicPtr, Ordering};
    let area = thread_area();
    // SAFETY: the area belongs to this thread and lives as long as it.
    let place = unsafe { &raw mut (*area).reader };
    // SAFETY: the field is an aligned pointer, which is read by `reader` above and written here.
    let place = unsafe { AtomicPtr::from_ptr(place.cast::<*mut u64>()) };
    let (expected, new) = (expected.cast_mut(), new.cast_mut());
    // Relaxed, both: nobody but this thread and its signal handlers uses the field.
    place.compare_exchange(expected, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// The word of all threads that have none of their own: all ones, and never written.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn no_reader() -> *const u64 {
    static NO_READER: [u64; 2] = [u64::MAX; 2];
    (&raw const NO_READER).cast()
}

/// The word that tells whether the calling thread reads under RCU; [`no_reader`] while it has none.
///
/// On this architecture it is what the thread is to give back at its end.
#[cfg(any(not(target_arch = "x86_64"), sheaves_keys))]
#[must_use]
pub fn reader() -> *const u64 {
    let word = crate::thread::at_exit();
    if word.is_null() { no_reader() } else { word.cast::<u64>().cast_const() }
}

/// Gives the calling thread another word for [`reader`]: on this architecture it is the one that
/// was announced for its end, so nothing is left to do.
#[cfg(any(not(target_arch = "x86_64"), sheaves_keys))]
#[must_use]
pub fn exchange_reader(_expected: *const u64, _new: *const u64) -> bool {
    true
}

/// Can threads have a word of their own? They keep it in their own memory.
#[cfg(all(target_arch = "x86_64", not(sheaves_keys)))]
#[must_use]
pub fn has_place_for_reader() -> bool {
    true
}

/// Can threads have a word of their own? Not where libc has no key that takes no memory.
#[cfg(any(not(target_arch = "x86_64"), sheaves_keys))]
#[must_use]
pub fn has_place_for_reader() -> bool {
    crate::thread::has_key()
}

/// How many read sections of this thread are open that were counted together with those of other
/// threads, because there was no memory for a word. Async-signal-safe.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn shared_sections() -> u32 {
    let area = thread_area();
    // SAFETY: the area belongs to this thread, lives as long as it, and has no other reference.
    unsafe { (*area).shared_sections }
}

/// Sets what [`shared_sections`] says. A signal handler puts back what it changes.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn set_shared_sections(count: u32) {
    let area = thread_area();
    // SAFETY: the area belongs to this thread, lives as long as it, and has no other reference.
    unsafe { (*area).shared_sections = count }
}

/// Not known on this architecture: 0.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn shared_sections() -> u32 {
    0
}

/// Nothing is remembered on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub fn set_shared_sections(_count: u32) {}

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

/// An even number that differs between the threads that are alive.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn thread_token() -> usize {
    thread_area().expose_provenance()
}

/// An even number that differs between the threads that are alive.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
#[must_use]
pub fn thread_token() -> usize {
    thread_pointer()
}

/// A word that differs between the threads that are alive.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn thread_pointer() -> usize {
    // SAFETY: pthread_self has no precondition.
    unsafe { libc::pthread_self() as usize }
}

#[cfg(all(target_arch = "x86_64", debug_assertions))]
core::arch::global_asm!(
    ".pushsection .tdata.sheaves_locks,\"awT\",@progbits",
    ".p2align 2",
    ".globl sheaves_locks",
    ".hidden sheaves_locks",
    ".type sheaves_locks,@object",
    "sheaves_locks:",
    ".long 0",
    ".size sheaves_locks, 4",
    ".popsection",
);

/// Adds to the number of locks that the calling thread has; what it is then. For assertions: it
/// stays 0 without them, and on other architectures. Async-signal-safe, as a handler gives back
/// what it takes.
#[inline]
pub(crate) fn count_locks(change: i32) -> i32 {
    #[cfg(all(target_arch = "x86_64", debug_assertions))]
    {
        let count: *mut i32;
        // SAFETY: reads the thread pointer and a loader-computed constant; no memory is written.
        unsafe {
            core::arch::asm!(
                "mov {count}, qword ptr [rip + sheaves_locks@GOTTPOFF]",
                "add {count}, qword ptr fs:[0]",
                count = out(reg) count,
                options(nostack, pure, readonly),
            );
        }
        // SAFETY: the number is this thread's, lives as long as it, and has no other reference.
        let count = unsafe { &mut *count };
        *count += change;
        *count
    }
    #[cfg(not(all(target_arch = "x86_64", debug_assertions)))]
    {
        let _ = change;
        0
    }
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
