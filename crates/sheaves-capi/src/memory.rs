//! The malloc family under the prefix of the house.

use core::ffi::c_void;

use sheaves_heap as heap;

// Their prototypes are in `header/begin.h`: what a macro makes is not seen by the header's maker.
heap::define_malloc! {
    /// `malloc(3)`, from this heap.
    #[unsafe(no_mangle)]
    sheaves_malloc -> c_void
}

heap::define_free! {
    /// `free(3)`, to this heap.
    ///
    /// # Safety
    /// As [`heap::free`].
    #[unsafe(no_mangle)]
    sheaves_free(c_void)
}

/// count objects of size bytes, zeroed. NULL and ENOMEM when there is no memory, also when the
/// product overflows.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn sheaves_calloc(count: usize, size: usize) -> *mut c_void {
    heap::calloc(count, size).cast()
}

/// Changes the size of a block, which may move. NULL allocates; size 0 gives a unique pointer. NULL
/// and ENOMEM when there is no memory, then the block stays as it is.
///
/// # Safety
/// block is NULL or came from this family, and after success is not used any more.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn sheaves_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's contract.
    unsafe { heap::realloc(block.cast(), size) }.cast()
}

/// At least size bytes at a multiple of align, a power of two; size need not be a multiple. NULL
/// and EINVAL for another alignment, ENOMEM when there is no memory.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn sheaves_aligned_alloc(align: usize, size: usize) -> *mut c_void {
    heap::aligned_alloc(align, size).cast()
}

/// Bytes of a block that may be used: at least as many as were asked for. 0 for NULL.
///
/// For this the functions that allocate have no alloc_size attribute: with it, a program compiled
/// with _FORTIFY_SOURCE=3 is aborted when it uses more than it asked for.
///
/// # Safety
/// block is NULL or came from this family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_usable_size(block: *const c_void) -> usize {
    // SAFETY: the caller's contract.
    unsafe { heap::usable_size(block.cast()) }
}

/// Gives all memory that is free back to the system: of the heap, of all caches, of per-CPU memory.
/// True if there was some. Interrupts the processors that run this process. Milliseconds.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_trim() -> bool {
    let any = heap::trim();
    sheaves_percpu::memory::trim();
    any
}
