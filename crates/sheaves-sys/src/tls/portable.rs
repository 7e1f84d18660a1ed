//! Architectures without a file of their own: no area, and so nothing that is stored per thread.

/// The reader's word of all threads that have none of their own: all ones, never written.
#[must_use]
pub fn no_reader() -> *const u64 {
    static NO_READER: [u64; 2] = [u64::MAX; 2];
    (&raw const NO_READER).cast()
}

/// Not counted per thread: 0.
#[must_use]
pub fn shared_sections() -> u32 {
    0
}

/// Not counted per thread.
pub fn set_shared_sections(_count: u32) {}

/// The portable engine's slot of the calling thread: a hash of the thread.
#[must_use]
pub fn virtual_slot() -> i32 {
    let hash = (thread_pointer() as u64 >> 12).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash >> 33) as i32
}

/// Not stored.
pub fn set_virtual_slot(_slot: i32) {}

/// A token of the calling thread: even, and different for each thread that is alive.
#[inline]
#[must_use]
pub fn thread_token() -> usize {
    thread_pointer()
}

/// Stands for the thread pointer: different for each thread that is alive.
#[must_use]
pub fn thread_pointer() -> usize {
    // SAFETY: pthread_self has no precondition.
    unsafe { libc::pthread_self() as usize }
}

/// Not counted.
pub(crate) fn count_locks(_change: i32) -> i32 {
    0
}
