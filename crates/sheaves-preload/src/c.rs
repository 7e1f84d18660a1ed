//! The C symbols: ISO C, POSIX and the extensions of glibc.
//!
//! Contracts are those of `malloc(3)`, `posix_memalign(3)` and `malloc_usable_size(3)`. Where these
//! leave a choice it is glibc's: `malloc(0)` returns a unique pointer, `realloc(p, 0)` frees and
//! returns null, `free` keeps `errno`, blocks are aligned to 16 bytes, and an alignment is rounded
//! up to a power of two, but for `posix_memalign`, which refuses it.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use sheaves_heap as heap;
use sheaves_sys::errno::{self, EINVAL, ENOMEM};
use sheaves_sys::function::{self, FnCell};
use sheaves_sys::stack::Frame;
use sheaves_sys::{map, object};

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

exports! { "C"
    /// `calloc(3)`.
    calloc(count: usize, size: usize) -> *mut c_void = heap::calloc(count, size).cast();
    /// `realloc(3)`. Size 0 frees a block, and returns null without an error.
    realloc(block: *mut c_void, size: usize) -> *mut c_void = {
        if size == 0 && !block.is_null() {
            free(block);
            return null_mut();
        }
        heap::realloc(block.cast(), size).cast()
    };
    /// `reallocarray(3)`: `realloc`, as in glibc the program's, for a product that may overflow.
    reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void = {
        let Some(bytes) = count.checked_mul(size) else {
            errno::set(ENOMEM);
            return null_mut();
        };
        first_realloc()(block, bytes)
    };
    /// `aligned_alloc(3)`: [`memalign`], as in glibc up to 2.37. Any size is accepted.
    aligned_alloc(align: usize, size: usize) -> *mut c_void = memalign(align, size);
    /// `memalign(3)`; like glibc's, it rounds the alignment up to a power of two.
    memalign(align: usize, size: usize) -> *mut c_void =
        heap::aligned_alloc(power_of_two(align), size).cast();
    /// `valloc(3)`: aligned to a page.
    valloc(size: usize) -> *mut c_void = aligned_alloc(map::page_bytes(), size);
    /// `pvalloc(3)`: aligned to a page, a whole number of pages.
    pvalloc(size: usize) -> *mut c_void =
        valloc(size.max(1).checked_next_multiple_of(map::page_bytes()).unwrap_or(usize::MAX));
    /// `malloc_usable_size(3)`.
    malloc_usable_size(block: *const c_void) -> usize = heap::usable_size(block.cast());
    /// `free_sized` of C23. The size is checked in a hardened process.
    free_sized(block: *mut c_void, size: usize) = {
        heap::slow::check_size(block.cast(), size, 0, true);
        free(block);
    };
    /// `free_aligned_sized` of C23. Alignment and size are checked in a hardened process.
    free_aligned_sized(block: *mut c_void, align: usize, size: usize) = {
        heap::slow::check_size(block.cast(), size, power_of_two(align), false);
        free(block);
    };
    /// `malloc_size` of macOS and tcmalloc: [`malloc_usable_size`].
    malloc_size(block: *const c_void) -> usize = malloc_usable_size(block);
    /// `nallocx` of jemalloc: the least usable bytes of a block of this size, whose alignment is in
    /// the flags. A guarded sample has no more bytes than were requested.
    nallocx(size: usize, flags: c_int) -> usize = heap::usable_size_of(size, align_of_flags(flags));
    /// `sdallocx` of jemalloc: [`free_sized`] of a block whose alignment is in the flags. The size
    /// may be any up to that of [`nallocx`].
    sdallocx(block: *mut c_void, size: usize, flags: c_int) = {
        heap::slow::check_size(block.cast(), size, align_of_flags(flags), true);
        free(block);
    };
    /// `cfree`, removed in glibc 2.26, for old programs.
    cfree(block: *mut c_void) = free(block);
    /// glibc's second name of [`malloc`].
    __libc_malloc(size: usize) -> *mut c_void = malloc(size);
    /// glibc's second name of [`free`].
    __libc_free(block: *mut c_void) = free(block);
    /// glibc's second name of [`cfree`].
    __libc_cfree(block: *mut c_void) = free(block);
    /// glibc's second name of [`calloc`].
    __libc_calloc(count: usize, size: usize) -> *mut c_void = calloc(count, size);
    /// glibc's second name of [`realloc`].
    __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void = realloc(block, size);
    /// glibc's second name of [`memalign`].
    __libc_memalign(align: usize, size: usize) -> *mut c_void = memalign(align, size);
    /// glibc's second name of [`valloc`].
    __libc_valloc(size: usize) -> *mut c_void = valloc(size);
    /// glibc's second name of [`pvalloc`].
    __libc_pvalloc(size: usize) -> *mut c_void = pvalloc(size);
    /// glibc's second name of [`posix_memalign`].
    __posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int =
        posix_memalign(place, align, size);
}

/// The alignment in jemalloc's flags, whose lowest six bits are its logarithm.
fn align_of_flags(flags: c_int) -> usize {
    1 << (flags & 63)
}

type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;

/// The function that [`first_realloc`] returns, once it is looked up.
#[unsafe(link_section = ".sheaves_load")]
static REALLOC: FnCell<Realloc> = FnCell::new();

// The loader takes locks to look a symbol up: not in the middle of a program's call.
sheaves_sys::run_when_loaded!(first_realloc());

/// The `realloc` that the loader finds first: the program's, if it has one, which knows the blocks
/// of the program's `malloc`. Otherwise ours.
///
/// Not by `Bound`, as operators are in `cxx.rs`: release builds bind this name to ours.
fn first_realloc() -> Realloc {
    REALLOC.get().unwrap_or_else(|| {
        // SAFETY: null, or a function of that name.
        let found = unsafe { function::at::<Realloc>(object::first_symbol(c"realloc")) };
        let first = found.unwrap_or(realloc);
        REALLOC.set(Some(first));
        first
    })
}

/// An alignment, rounded up to a power of two; 0, which the heap refuses, where that overflows.
fn power_of_two(align: usize) -> usize {
    align.checked_next_power_of_two().unwrap_or(0)
}

heap::entry::with_frame! {
    /// `posix_memalign(3)`: 0, `EINVAL` or `ENOMEM`; does not write `*place` on failure.
    ///
    /// # Safety
    /// `place` is valid for a write.
    #[unsafe(no_mangle)]
    pub [unsafe] fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int =
        posix_memalign_from;
}

/// # Safety
/// As [`posix_memalign`].
unsafe extern "C" fn posix_memalign_from(
    place: *mut *mut c_void,
    align: usize,
    size: usize,
    frame: Frame,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return EINVAL;
    }
    let block = errno::preserve(|| heap::aligned_alloc_from(align, size, frame));
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: the caller's contract.
    unsafe { place.write(block.cast()) };
    0
}
