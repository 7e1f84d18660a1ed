//! The malloc family with the prefix `sheaves_`.

use core::ffi::{c_int, c_void};

use sheaves_heap as heap;
use sheaves_sys::errno::{self, EINVAL, ENOMEM};

/// A linker that takes this file from a static library takes what is done at load and at exit, too.
#[used]
static CONTROL: fn() = sheaves_control::start;

// Their prototypes are in `header/begin.h`: cbindgen does not see functions that a macro defines.
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

/// Allocates count objects of size bytes, zeroed. NULL and ENOMEM when memory is out or the product
/// overflows.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn sheaves_calloc(count: usize, size: usize) -> *mut c_void {
    heap::calloc(count, size).cast()
}

/// Changes the size of a block, which may move. With a NULL block it is sheaves_malloc; size 0
/// gives a unique pointer. On failure NULL and ENOMEM, and the block is unchanged.
///
/// # Safety
/// block is NULL or came from this family, and after success is not used any more.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn sheaves_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's contract.
    unsafe { heap::realloc(block.cast(), size) }.cast()
}

/// Allocates at least size bytes at a multiple of align, a power of two; size need not be a
/// multiple of align. NULL and EINVAL for another alignment, ENOMEM when memory is out.
#[unsafe(no_mangle)]
#[must_use]
pub extern "C" fn sheaves_aligned_alloc(align: usize, size: usize) -> *mut c_void {
    heap::aligned_alloc(align, size).cast()
}

/// sheaves_realloc to count elements of size bytes. NULL and ENOMEM, and the block is unchanged,
/// also when the product overflows.
///
/// # Safety
/// As sheaves_realloc.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn sheaves_reallocarray(
    block: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    // No block has as many bytes: ENOMEM.
    let bytes = count.saturating_mul(size);
    // SAFETY: the caller's contract.
    unsafe { heap::realloc(block.cast(), bytes) }.cast()
}

/// sheaves_aligned_alloc as posix_memalign(3): 0, and the block in *place; EINVAL for an alignment
/// that is not a power of two and a multiple of 8, ENOMEM when memory is out, and *place is
/// unchanged. errno is kept.
///
/// # Safety
/// place is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_posix_memalign(
    place: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    if place.is_null() || !align.is_power_of_two() || !align.is_multiple_of(8) {
        return EINVAL;
    }
    let block = errno::preserve(|| heap::aligned_alloc(align, size));
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller's contract.
    unsafe { place.write(block.cast()) };
    0
}

/// free_sized of C23: sheaves_free of a block that was allocated with this size. NULL is ignored.
/// In a hardened process a size that cannot be that of the block aborts the process with one line:
/// one of another size class, unless sheaves_realloc may have resized the block in place to it; any
/// other size with SHEAVES_HARDEN=2 or SHEAVES_DEBUG=1, but for blocks from 56 KiB on one that has
/// the same number of pages.
///
/// # Safety
/// As sheaves_free; size is that of the allocation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_free_sized(block: *mut c_void, size: usize) {
    heap::slow::check_size(block.cast(), size, 0, true);
    // SAFETY: the caller's contract.
    unsafe { heap::free(block.cast()) };
}

/// free_aligned_sized of C23: the same for a block of sheaves_aligned_alloc.
///
/// # Safety
/// As sheaves_free; align and size are those of the allocation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_free_aligned_sized(block: *mut c_void, align: usize, size: usize) {
    heap::slow::check_size(block.cast(), size, align, false);
    // SAFETY: the caller's contract.
    unsafe { heap::free(block.cast()) };
}

/// To be called before the program puts itself into a sandbox (seccomp). The library ends its
/// threads, and from then on calls only mmap, munmap, mremap, mprotect, madvise and futex, in this
/// process and its children. Deferred calls then run only in sheaves_rcu_reclaim and in what waits
/// for them (sheaves_rcu_barrier, sheaves_srcu_barrier, sheaves_srcu_destroy), and a grace period
/// may take 10 ms. Heap profiles end, the command sheaves gets no answer, and nothing is reported
/// on standard error any more. Waits until the threads have ended: for a second at most, or for a
/// minute while one of them runs or waits for a CPU; in a deferred call not at all. Not for signal
/// handlers. The preload object calls this by itself before prctl(PR_SET_SECCOMP) and
/// syscall(SYS_seccomp).
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_before_sandbox() {
    heap::before_sandbox();
}

/// Bytes of a block that may be used: at least the requested size. 0 for NULL.
///
/// This is why the allocating functions have no alloc_size attribute: with it, _FORTIFY_SOURCE=3
/// would abort a program that uses more than it requested.
///
/// # Safety
/// block is NULL or came from this family.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_usable_size(block: *const c_void) -> usize {
    // SAFETY: the caller's contract.
    unsafe { heap::usable_size(block.cast()) }
}

/// Returns unused memory to the kernel: of the heap, of all caches and of per-CPU memory. At most
/// keep_bytes stay free with their old contents, for the next allocations. True if free slabs or
/// mappings were returned: pages between objects and per-CPU memory do not count. Interrupts the
/// CPUs that run this process; takes milliseconds.
///
/// Without this call what is unused goes back after SHEAVES_DECAY_MS.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_trim(keep_bytes: usize) -> bool {
    heap::trim(keep_bytes)
}

/// Returns unused memory to the kernel until the heap has at most that many bytes, in use or free
/// with old contents; true when that was reached. Begins with what is free, and does what
/// sheaves_trim does only if that does not suffice.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_release_to(bytes: usize) -> bool {
    heap::release_to(bytes)
}

/// Sets a limit in bytes, at least 1 MiB, on the memory of the heap; 0 removes it. Replaces
/// SHEAVES_LIMIT. No allocation fails because of it: near the limit unused memory goes back to the
/// kernel at once, and the first time one line on standard error says so.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_set_limit(bytes: usize) {
    heap::set_limit((bytes != 0).then_some(bytes));
}

/// Sets a function that is called when unused memory was returned near the limit, with the bytes of
/// the heap and the limit. It may free memory. The library's thread calls it if there is one, as a
/// deferred call; otherwise a thread that allocates or frees does, perhaps inside a read section or
/// under locks of the program. NULL removes it.
#[unsafe(no_mangle)]
pub extern "C" fn sheaves_on_near_limit(
    callback: Option<extern "C" fn(heap_bytes: usize, limit_bytes: usize)>,
) {
    heap::on_near_limit(callback);
}
