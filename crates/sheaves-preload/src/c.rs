//! The C symbols: ISO C, POSIX and the extensions of glibc.
//!
//! Contracts are those of `malloc(3)`, `posix_memalign(3)` and `malloc_usable_size(3)`. Where these
//! leave a choice: `malloc(0)` and `realloc(p, 0)` return a unique pointer, `free` keeps `errno`,
//! an alignment that is not a power of two is `EINVAL`, and blocks are aligned to 16 bytes.

use core::ffi::{c_int, c_void};

use sheaves_heap as heap;
use sheaves_sys::errno::{self, EINVAL, ENOMEM};
use sheaves_sys::map;

heap::define_malloc! {
    /// `malloc(3)`.
    #[unsafe(no_mangle)]
    malloc -> c_void
}

heap::define_free! {
    /// `free(3)`.
    ///
    /// # Safety
    /// As [`heap::free`].
    #[unsafe(no_mangle)]
    free(c_void)
}

/// `calloc(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    heap::calloc(count, size).cast()
}

/// `realloc(3)`.
///
/// # Safety
/// As [`heap::realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's contract.
    unsafe { heap::realloc(block.cast(), size) }.cast()
}

/// `reallocarray(3)`: [`realloc`] for a product that may overflow.
///
/// # Safety
/// As [`heap::realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    block: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else {
        errno::set(ENOMEM);
        return core::ptr::null_mut();
    };
    // SAFETY: the caller's contract.
    unsafe { realloc(block, bytes) }
}

/// `posix_memalign(3)`: 0, `EINVAL` or `ENOMEM`; does not write `*place` on failure.
///
/// # Safety
/// `place` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    place: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
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

/// `aligned_alloc(3)`; like glibc's, it accepts sizes that are not a multiple of the alignment.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    heap::aligned_alloc(align, size).cast()
}

/// `memalign(3)`; like glibc's, it rounds the alignment up to a power of two.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    // `aligned_alloc` refuses 0, which stands for overflow.
    heap::aligned_alloc(align.checked_next_power_of_two().unwrap_or(0), size).cast()
}

/// `valloc(3)`: aligned to a page.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    heap::aligned_alloc(map::page_bytes(), size).cast()
}

/// `pvalloc(3)`: aligned to a page, a whole number of pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let page = map::page_bytes();
    let bytes = size.max(1).checked_next_multiple_of(page).unwrap_or(usize::MAX);
    heap::aligned_alloc(page, bytes).cast()
}

/// `malloc_usable_size(3)`.
///
/// # Safety
/// As [`heap::usable_size`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *const c_void) -> usize {
    // SAFETY: the caller's contract.
    unsafe { heap::usable_size(block.cast()) }
}

/// `free_sized` of C23; ignores the size.
///
/// # Safety
/// As [`heap::free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut c_void, _size: usize) {
    // SAFETY: the caller's contract.
    unsafe { free(block) }
}

/// `free_aligned_sized` of C23; ignores alignment and size.
///
/// # Safety
/// As [`heap::free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, _align: usize, _size: usize) {
    // SAFETY: the caller's contract.
    unsafe { free(block) }
}

/// `cfree`, removed in glibc 2.26, for old programs.
///
/// # Safety
/// As [`heap::free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(block: *mut c_void) {
    // SAFETY: the caller's contract.
    unsafe { free(block) }
}

/// glibc's second name of [`malloc`].
#[unsafe(no_mangle)]
pub extern "C" fn __libc_malloc(size: usize) -> *mut c_void {
    malloc(size)
}

/// glibc's second name of [`free`].
///
/// # Safety
/// As [`heap::free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_free(block: *mut c_void) {
    // SAFETY: the caller's contract.
    unsafe { free(block) }
}

/// glibc's second name of [`calloc`].
#[unsafe(no_mangle)]
pub extern "C" fn __libc_calloc(count: usize, size: usize) -> *mut c_void {
    calloc(count, size)
}

/// glibc's second name of [`realloc`].
///
/// # Safety
/// As [`heap::realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's contract.
    unsafe { realloc(block, size) }
}

/// glibc's second name of [`memalign`].
#[unsafe(no_mangle)]
pub extern "C" fn __libc_memalign(align: usize, size: usize) -> *mut c_void {
    memalign(align, size)
}

/// glibc's second name of [`valloc`].
#[unsafe(no_mangle)]
pub extern "C" fn __libc_valloc(size: usize) -> *mut c_void {
    valloc(size)
}

/// glibc's second name of [`pvalloc`].
#[unsafe(no_mangle)]
pub extern "C" fn __libc_pvalloc(size: usize) -> *mut c_void {
    pvalloc(size)
}

/// glibc's second name of [`posix_memalign`].
///
/// # Safety
/// As [`posix_memalign`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __posix_memalign(
    place: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    // SAFETY: the caller's contract.
    unsafe { posix_memalign(place, align, size) }
}
