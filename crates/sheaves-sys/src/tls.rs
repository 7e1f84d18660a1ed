//! Thread-local words of the fast paths, reached by one instruction.
//!
//! Stable Rust compiles `thread_local!` in a shared object to a call. So the area is declared in
//! assembly with the initial-exec model: thread pointer plus a constant that the loader computes.
//!
//! Its symbol is protected. A shared object may export it to programs in C, and yet each object
//! that contains this crate uses an area of its own.
//!
//! Other architectures have no area. `pthread_self` replaces the thread pointer, the portable
//! engine's slot is a hash of it, and the reader's word is the value of a `pthread_key`. `--cfg
//! sheaves_keys` does the same with the reader's word on x86-64, for tests.

use crate::rseq::RseqArea;

/// The thread-local words: 64 bytes, aligned to 64.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ThreadArea {
    /// Registered with the kernel where libc has registered none.
    pub rseq: RseqArea,
    /// The portable engine's slot for this thread, negative before its first use.
    pub virtual_slot: i32,
    /// Always -1: read instead of a slot number when the fast path has to fail.
    pub no_slot: i32,
    /// The reader's word of the thread: its RCU read sections. [`no_reader`] before the first one.
    pub reader: *const u64,
    /// Open read sections of this thread that are counted in a shared word: see
    /// [`shared_sections`].
    pub shared_sections: u32,
    /// Not 0 while the thread is online in the sense of liburcu's QSBR flavour: a reader from one
    /// quiescent state to the next. Used by the C API.
    pub is_online: u32,
    /// The thread's `call_rcu_data`, as liburcu's `set_thread_call_rcu_data` sets it; only stored.
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
    ".long 0",    // cpu_id_start
    ".long -1",   // cpu_id: not registered
    ".quad 0",    // rseq_cs
    ".long 0, 0", // flags, node_id
    ".long -1",   // mm_cid: not registered
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

/// The reader's word of all threads that have none of their own: all ones, never written.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn no_reader() -> *const u64 {
    &raw const NO_READER
}

/// The reader's word of the calling thread; [`no_reader`] while it has none. Two loads, and no
/// call. Async-signal-safe.
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

/// Replaces the word that [`reader`] returns if it is `expected`; true if it was.
///
/// One atomic step, also with respect to signal handlers.
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
    // Relaxed, both: only this thread and its signal handlers use the field.
    place.compare_exchange(expected, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// The reader's word of all threads that have none of their own: all ones, never written.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn no_reader() -> *const u64 {
    static NO_READER: [u64; 2] = [u64::MAX; 2];
    (&raw const NO_READER).cast()
}

/// The reader's word of the calling thread; [`no_reader`] while it has none.
///
/// On this architecture it is the value of [`crate::thread::at_exit`].
#[cfg(any(not(target_arch = "x86_64"), sheaves_keys))]
#[must_use]
pub fn reader() -> *const u64 {
    let word = crate::thread::at_exit();
    if word.is_null() { no_reader() } else { word.cast::<u64>().cast_const() }
}

/// Replaces the word that [`reader`] returns. On this architecture [`crate::thread::set_at_exit`]
/// has done so, and nothing is left to do.
#[cfg(any(not(target_arch = "x86_64"), sheaves_keys))]
#[must_use]
pub fn exchange_reader(_expected: *const u64, _new: *const u64) -> bool {
    true
}

/// True when threads can have a word of their own; here they always can.
#[cfg(all(target_arch = "x86_64", not(sheaves_keys)))]
#[must_use]
pub fn has_place_for_reader() -> bool {
    true
}

/// True when threads can have a word of their own: where libc has a key whose value needs no
/// allocation.
#[cfg(any(not(target_arch = "x86_64"), sheaves_keys))]
#[must_use]
pub fn has_place_for_reader() -> bool {
    crate::thread::has_key()
}

/// Open read sections of this thread that are counted in a word shared with other threads, because
/// there was no memory for a word of its own. Async-signal-safe.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn shared_sections() -> u32 {
    let area = thread_area();
    // SAFETY: the area belongs to this thread, lives as long as it, and has no other reference.
    unsafe { (*area).shared_sections }
}

/// Sets [`shared_sections`]. A signal handler restores what it changes.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn set_shared_sections(count: u32) {
    let area = thread_area();
    // SAFETY: the area belongs to this thread, lives as long as it, and has no other reference.
    unsafe { (*area).shared_sections = count }
}

/// Not counted per thread on this architecture: 0.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn shared_sections() -> u32 {
    0
}

/// Not counted per thread on this architecture.
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

/// Stores the portable engine's slot of the calling thread.
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

/// Not stored on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub fn set_virtual_slot(_slot: i32) {}

/// A token of the calling thread: even, and different for each thread that is alive.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn thread_token() -> usize {
    thread_area().expose_provenance()
}

/// A token of the calling thread: even, and different for each thread that is alive.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
#[must_use]
pub fn thread_token() -> usize {
    thread_pointer()
}

/// Stands for the thread pointer: different for each thread that is alive.
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

/// Adds to the number of locks that the calling thread holds, and returns the sum. For assertions:
/// it stays 0 without them, and on other architectures. Async-signal-safe, because a handler
/// releases the locks that it takes.
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
