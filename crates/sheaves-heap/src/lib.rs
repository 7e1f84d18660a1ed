//! General malloc (stub with the final signatures).
#![no_std]
use core::alloc::Layout;
/// Allocates; null when out of memory.
#[inline]
pub fn malloc(size: usize) -> *mut u8 {
    unsafe { libc::malloc(size).cast() }
}
/// Frees.
/// # Safety
/// From this heap.
#[inline]
pub unsafe fn free(p: *mut u8) {
    unsafe { libc::free(p.cast()) }
}
/// Sized.
#[inline]
pub fn alloc_layout(l: Layout) -> *mut u8 {
    malloc(l.size())
}
/// Sized free.
/// # Safety
/// From `alloc_layout` with the same layout.
#[inline]
pub unsafe fn dealloc_layout(p: *mut u8, _l: Layout) {
    unsafe { free(p) }
}
