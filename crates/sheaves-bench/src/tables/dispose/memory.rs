//! Where the objects of peers come from.

use core::ptr::NonNull;

use crate::contenders::allocators::Allocator;
use crate::contenders::allocators::glibc::Glibc;
#[cfg(feature = "peers")]
use crate::contenders::allocators::peers::Mimalloc;
use crate::contenders::deferred_bytes;
use crate::harness::out_of_memory;

pub(super) const OBJECT_BYTES: usize = 64;

/// An object: room for whatever a contender links it with, and content.
#[repr(C)]
pub(super) struct Object {
    pub(super) head: [u64; 2],
    content: [u64; OBJECT_BYTES / 8 - 2],
}

const _: () = assert!(size_of::<Object>() == OBJECT_BYTES);

/// An allocator that callbacks know without being told.
pub(super) trait Memory: Allocator + Default {
    const THIS: Self;
}

impl Memory for Glibc {
    const THIS: Glibc = Glibc;
}

#[cfg(feature = "peers")]
impl Memory for Mimalloc {
    const THIS: Mimalloc = Mimalloc;
}

#[inline]
pub(super) fn write(object: *mut u8) -> NonNull<Object> {
    let Some(object) = NonNull::new(object.cast::<Object>()) else { out_of_memory() };
    let content = object.as_ptr().cast::<u64>().wrapping_add(2);
    // SAFETY: the object is fresh and has 64 bytes; volatile, so that the write is not dropped.
    unsafe { content.write_volatile(14) };
    object
}

#[inline]
pub(super) fn fresh<M: Memory>() -> NonNull<Object> {
    write(M::THIS.alloc(OBJECT_BYTES))
}

/// Frees an object, and counts it.
///
/// # Safety
/// The object is from [`fresh`] with the same memory, and it is not used any more.
#[inline]
pub(super) unsafe fn free<M: Memory>(object: NonNull<Object>) {
    // SAFETY: the caller's promise.
    unsafe { M::THIS.free(object.as_ptr().cast(), OBJECT_BYTES) };
    deferred_bytes::add_freed(OBJECT_BYTES);
}
