//! What the standard library would provide. Without it, and its code for backtraces, the object is
//! half as large.

use core::alloc::{GlobalAlloc, Layout};

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    sheaves_sys::report::die(format_args!("{info}"))
}

/// For the crates below that can allocate; nothing here does.
#[global_allocator]
static HEAP: Heap = Heap;

struct Heap;

// SAFETY: the heap's functions have the contract of the trait's.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        sheaves_heap::alloc_layout(layout)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the same contract.
        unsafe { sheaves_heap::dealloc_layout(block, layout) };
    }
}
