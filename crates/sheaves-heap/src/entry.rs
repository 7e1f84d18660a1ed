//! The bodies of `malloc` and `free` as functions, also under their C names.
//!
//! On x86-64 and aarch64 they are naked functions of about twenty instructions; elsewhere they are
//! the inlined forms of [`mod@crate::malloc`]. They are macros, so that the function with the C
//! name is the body itself, without a jump.

/// Defines a function `malloc`: see [`crate::malloc()`].
#[cfg(all(any(target_arch = "aarch64", target_arch = "x86_64"), not(miri)))]
#[macro_export]
macro_rules! define_malloc {
    ($(#[$attribute:meta])* $name:ident -> $block:ty) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        pub extern "C" fn $name(size: usize) -> *mut $block {
            $crate::entry::pop_by_size!(
                table = $crate::classes::WORDS,
                slow = $crate::slow::malloc
            )
        }
    };
}

/// Defines a function `free`: see [`crate::free`].
#[cfg(all(any(target_arch = "aarch64", target_arch = "x86_64"), not(miri)))]
#[macro_export]
macro_rules! define_free {
    ($(#[$attribute:meta])* $name:ident($block:ty)) => {
        $(#[$attribute])*
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name(block: *mut $block) {
            $crate::entry::push_by_address!(
                slow = $crate::slow::free
            )
        }
    };
}

/// Defines a function `malloc`: see [`crate::malloc()`].
#[cfg(not(all(any(target_arch = "aarch64", target_arch = "x86_64"), not(miri))))]
#[macro_export]
macro_rules! define_malloc {
    ($(#[$attribute:meta])* $name:ident -> $block:ty) => {
        $(#[$attribute])*
        #[inline(never)]
        pub extern "C" fn $name(size: usize) -> *mut $block {
            $crate::malloc::malloc_inline(size).cast()
        }
    };
}

/// Defines a function `free`: see [`crate::free`].
#[cfg(not(all(any(target_arch = "aarch64", target_arch = "x86_64"), not(miri))))]
#[macro_export]
macro_rules! define_free {
    ($(#[$attribute:meta])* $name:ident($block:ty)) => {
        $(#[$attribute])*
        #[inline(never)]
        pub unsafe extern "C" fn $name(block: *mut $block) {
            // SAFETY: the same contract.
            unsafe { $crate::malloc::free_inline(block.cast()) };
        }
    };
}

#[cfg(all(any(target_arch = "aarch64", target_arch = "x86_64"), not(miri)))]
#[doc(hidden)]
pub use sheaves_percpu::{jump_through, pop_by_size, push_by_address};
#[doc(hidden)]
pub use sheaves_percpu::{jump_with_frame, with_frame};

define_malloc! {
    /// At least `size` bytes at a multiple of 16, uninitialised; null (and `ENOMEM`) when memory is
    /// out. Size 0 gives a unique pointer.
    ///
    /// Fast path: 20 instructions, no atomic. The slow path may sleep on a lock for microseconds.
    /// May be called in every thread at any time, but not in signal handlers.
    #[must_use]
    malloc -> u8
}

define_free! {
    /// Frees a block. Null is ignored. `errno` is kept.
    ///
    /// An address that is not from this heap, or not the start of a block, aborts the process with
    /// one line. It does so at once where the address is outside the heap, in free memory, or not a
    /// multiple of 16. An address inside a block of up to 1 MiB, or freed twice, is detected when
    /// the block returns to its slab, or at once in hardened and debug mode.
    ///
    /// # Safety
    /// `block` came from this heap and is not used any more.
    free(u8)
}
