//! The heap as `#[global_allocator]`.

use core::alloc::{GlobalAlloc, Layout};

use sheaves_heap::classes::{QUANTUM_BYTES as ALIGN_MIN, SMALL_BYTES_MAX, of_layout};
use sheaves_slab::internal::sampling::note_frees_by_layout;

/// The general heap as a Rust global allocator.
///
/// A free knows the layout, which saves the checks of the address that C's `free` needs. The type
/// has size 0; every instance is the one heap of the process. Blocking, fork and signals: as
/// [`crate::heap::malloc()`]. When memory is out it returns null, which `alloc` turns into
/// `handle_alloc_error`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sheaves;

impl Sheaves {
    /// The allocator.
    #[must_use]
    pub const fn new() -> Sheaves {
        Sheaves
    }
}

/// [`Sheaves`] for programs with guard samples: a block of [`crate::heap::guard`] becomes
/// inaccessible when it is freed, and a block of a heap profile is no longer counted then.
///
/// With [`Sheaves`] that is when the sheaf with the block's address leaves its slot. Here a free
/// finds its cache by the address, as C's does: five instructions more.
///
/// ```
/// #[global_allocator]
/// static HEAP: sheaves::ProfiledSheaves = sheaves::ProfiledSheaves;
///
/// assert!(sheaves::heap::profile::start(sheaves::heap::profile::RATE_BYTES));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ProfiledSheaves;

// SAFETY: as for `Sheaves`, whose blocks these are.
unsafe impl GlobalAlloc for ProfiledSheaves {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        sheaves_heap::alloc_layout(layout)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the caller's contract: from this allocator.
        unsafe { sheaves_heap::malloc::free_inline(block) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the same contract.
        unsafe { Sheaves.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.align() <= ALIGN_MIN {
            // SAFETY: the caller's contract; a free does not depend on the class of the layout.
            return unsafe { sheaves_heap::realloc(block, size) };
        }
        // SAFETY: the caller's contract. Where this frees the block, it does so by the layout.
        unsafe { Sheaves.realloc(block, layout, size) }
    }
}

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
        note_frees_by_layout();
        if layout.align() <= ALIGN_MIN || layout.size() > SMALL_BYTES_MAX {
            // Pages that are fresh from the kernel are not written again, and are aligned to pages.
            let block = sheaves_heap::calloc(1, layout.size());
            if block.addr().is_multiple_of(layout.align()) {
                return block;
            }
            // SAFETY: from the heap, and no other thread knows it.
            unsafe { sheaves_heap::free(block) };
        }
        let block = sheaves_heap::alloc_layout(layout);
        if !block.is_null() {
            // SAFETY: the block has the layout's size, and no other thread knows it.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // A block that is resized in place stays in its class, but `dealloc` derives the class from
        // the layout. So it may stay only if the new layout has the same class, or both have none.
        let class = |size| of_layout(size, layout.align());
        if layout.align() <= ALIGN_MIN && class(layout.size()) == class(size) {
            note_frees_by_layout();
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
            // SAFETY: the caller no longer uses the old block.
            unsafe { sheaves_heap::dealloc_layout(block, layout) };
        }
        new
    }
}
