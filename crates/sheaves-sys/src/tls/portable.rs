//! Architectures without a file of their own: no area, and so nothing that is stored per thread.

use super::layout::ThreadArea;

/// Threads have no area.
pub const HAS_AREA: bool = false;

/// Stands for an area, which is never accessed.
pub fn thread_area() -> *mut ThreadArea {
    core::ptr::with_exposed_provenance_mut(thread_pointer())
}

/// The reader's word of all threads that have none of their own: all ones, never written.
pub fn no_reader() -> *const u64 {
    static NO_READER: [u64; 2] = [u64::MAX; 2];
    (&raw const NO_READER).cast()
}

/// Defines the functions of fields that are not stored: each has the same value at any time.
macro_rules! fields {
    ($($field:ident, $set:ident: $type:ty = $value:expr;)*) => {$(
        /// Not stored.
        pub fn $field() -> $type {
            $value
        }

        /// Does nothing.
        pub fn $set(_value: $type) {}
    )*};
}

fields! {
    // A hash of the thread.
    virtual_slot, set_virtual_slot: i16 =
        ((thread_pointer() as u64 >> 12).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 49) as i16;
    locks, set_locks: u8 = 0;
    // Not 0: no such lock is taken over.
    bit_locks, set_bit_locks: u8 = 1;
    shared_sections, set_shared_sections: u32 = 0;
    online, set_online: u32 = 0;
    calls, set_calls: *mut core::ffi::c_void = core::ptr::null_mut();
}

/// Stands for the thread pointer: different for each thread that is alive.
pub fn thread_pointer() -> usize {
    // SAFETY: pthread_self has no precondition.
    unsafe { libc::pthread_self() as usize }
}

/// Of libc's variables none is used.
macro_rules! weak_address {
    ($name:literal) => {
        core::ptr::null()
    };
}
pub(crate) use weak_address;
