//! Sheaves (stub with the final names).
#![no_std]
use core::alloc::{GlobalAlloc, Layout};
pub use sheaves_slab::raw;
/// The global allocator.
#[derive(Debug)]
pub struct Sheaves;
impl Sheaves {
    /// Const.
    pub const fn new() -> Sheaves {
        Sheaves
    }
}
unsafe impl GlobalAlloc for Sheaves {
    #[inline]
    unsafe fn alloc(&self, l: Layout) -> *mut u8 {
        sheaves_heap::alloc_layout(l)
    }
    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, l: Layout) {
        unsafe { sheaves_heap::dealloc_layout(p, l) }
    }
}
