//! `#[global_allocator]`.

use core::alloc::{GlobalAlloc, Layout};

use sheaves_heap::classes::of_layout;

/// The general heap as a Rust global allocator.
///
/// Frees know their layout, so they save the look at the address that C's `free` needs. Zero
/// bytes large, `const`-constructible; every instance stands for the one heap of the process.
/// Blocking, fork and signals: as [`crate::heap::malloc()`]. Out of memory is a null
/// pointer, which `alloc` turns into `handle_alloc_error`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sheaves;

impl Sheaves {
    /// The allocator.
    #[must_use]
    pub const fn new() -> Sheaves {
        Sheaves
    }
}

/// Alignment of every block, whatever was asked for.
const ALIGN_MIN: usize = sheaves_heap::classes::QUANTUM_BYTES;

// SAFETY: 1. blocks have the layout's size and alignment (`alloc_layout`); 2. they stay valid
// until `dealloc`; 3. nothing unwinds; 4. `realloc` keeps the contents.
unsafe impl GlobalAlloc for Sheaves {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        sheaves_heap::alloc_layout(layout)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract: from this allocator, with this layout.
        unsafe { sheaves_heap::dealloc_layout(block, layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGN_MIN {
            return sheaves_heap::calloc(1, layout.size());
        }
        let block = sheaves_heap::alloc_layout(layout);
        if !block.is_null() {
            // SAFETY: the block has the layout's size and is ours.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // A block that stays in place stays in its class, and `dealloc` goes by the layout: only
        // where the new layout leads to the same class may it stay. No class is the same, too.
        let class = |size| of_layout(size, layout.align());
        if layout.align() <= ALIGN_MIN && class(layout.size()) == class(size) {
            // SAFETY: the caller's contract.
            return unsafe { sheaves_heap::realloc(block, size) };
        }
        // SAFETY: the caller's contract: the rounded size does not overflow.
        let new_layout = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let new = sheaves_heap::alloc_layout(new_layout);
        if !new.is_null() {
            let count = layout.size().min(size);
            // SAFETY: both blocks have at least `count` bytes, and they are different blocks.
            unsafe { core::ptr::copy_nonoverlapping(block, new, count) };
            // SAFETY: the caller gives the old block up.
            unsafe { sheaves_heap::dealloc_layout(block, layout) };
        }
        new
    }
}
