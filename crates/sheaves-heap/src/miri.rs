//! The heap under Miri, in place of `malloc` and `realloc`: Miri's own, so that it finds blocks
//! that are used after they are freed, freed twice, or never.

use core::alloc::Layout;
use core::ptr::null_mut;

use sheaves_rcu::defer::{Head, call_rcu};
use sheaves_sys::{miri, report};

use crate::classes::QUANTUM_BYTES;

/// [`crate::malloc()`].
#[must_use]
pub fn malloc_inline(size: usize) -> *mut u8 {
    aligned_alloc(QUANTUM_BYTES, size)
}

/// [`crate::malloc()`] for a layout with any alignment.
#[must_use]
pub fn alloc_layout(layout: Layout) -> *mut u8 {
    aligned_alloc(layout.align().max(QUANTUM_BYTES), layout.size())
}

/// A block of `size` bytes at a multiple of `align`.
#[must_use]
pub fn aligned_alloc(align: usize, size: usize) -> *mut u8 {
    let mut block = null_mut();
    // SAFETY: the place of the result is valid.
    match unsafe { miri::posix_memalign(&raw mut block, align, size.max(1)) } {
        0 => block.cast(),
        _ => null_mut(),
    }
}

/// Zeroed memory for `count` elements of `size` bytes.
#[must_use]
pub fn calloc(count: usize, size: usize) -> *mut u8 {
    // SAFETY: it has no precondition.
    unsafe { miri::calloc(count, size.max(1)) }.cast()
}

/// Resizes a block.
///
/// # Safety
/// `block` is null or came from this heap; after success the old address is not used any more.
#[must_use]
pub unsafe fn realloc(block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the same contract.
    unsafe { miri::realloc(block.cast(), size.max(1)) }.cast()
}

/// Bytes that the caller may use in a block. Not supported by Miri.
///
/// # Safety
/// `block` is null or came from this heap and was not freed.
#[must_use]
pub unsafe fn usable_size(block: *const u8) -> usize {
    // SAFETY: the same contract.
    unsafe { miri::malloc_usable_size(block.cast_mut().cast()) }
}

/// [`crate::free`].
///
/// # Safety
/// As [`crate::free`].
pub unsafe fn free_inline(block: *mut u8) {
    // SAFETY: the same contract.
    unsafe { miri::free(block.cast()) };
}

/// [`crate::free`] for a caller that knows the layout.
///
/// # Safety
/// `block` came from [`alloc_layout`] or its variants with this layout, and is not used any more.
pub unsafe fn dealloc_layout(block: *mut u8, _layout: Layout) {
    // SAFETY: the same contract.
    unsafe { free_inline(block) };
}

/// A block that is freed after a grace period.
#[repr(C)]
struct Deferred {
    head: Head,
    block: *mut u8,
}

/// Frees a block after a grace period.
///
/// # Safety
/// `block` came from this heap or is null, and only readers that began before this call still use
/// it.
pub unsafe fn free_rcu(block: *mut u8) {
    let deferred = alloc_layout(Layout::new::<Deferred>()).cast::<Deferred>();
    if deferred.is_null() {
        report::die(format_args!("memory is out"));
    }
    // SAFETY: by the layout there is room for it, and the memory is ours.
    unsafe { deferred.write(Deferred { head: Head::new(), block }) };
    // SAFETY: an idle head in memory that is freed in the callback.
    unsafe { call_rcu(deferred.cast(), end) };
}

/// The callback of [`free_rcu`].
unsafe extern "C" fn end(head: *mut Head) {
    let deferred = head.cast::<Deferred>();
    // SAFETY: the head is the first of its fields.
    let block = unsafe { (*deferred).block };
    // SAFETY: by the contract of `free_rcu`, after a grace period.
    unsafe { free_inline(block) };
    // SAFETY: from `alloc_layout`, and not used any more.
    unsafe { free_inline(deferred.cast()) };
}

/// [`free_rcu`] for a caller that knows the layout.
///
/// # Safety
/// As there.
pub unsafe fn free_rcu_layout(block: *mut u8, _layout: Layout) {
    // SAFETY: the same contract.
    unsafe { free_rcu(block) };
}
