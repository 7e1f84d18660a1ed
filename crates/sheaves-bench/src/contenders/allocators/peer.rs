//! The macro that makes an allocator of a peer's C functions.

/// A peer: how it allocates and frees, and, as far as it can, how it resizes, allocates zeroed
/// memory, enters a thread, gives memory back and tells what is in use.
macro_rules! peer {
    (
        $(#[$doc:meta])* $peer:ident,
        |$size:ident| $alloc:expr,
        |$object:ident, $known:ident| $free:expr
        $(, |$old:ident, $new:ident| $realloc:expr)?
        $(, zeroed |$zeroed:ident| $calloc:expr)?
        $(, enter $enter:expr)?
        $(, trim $trim:expr)?
        $(, statistics $statistics:expr)?
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $peer;

        impl $crate::contenders::allocators::Allocator for $peer {
            #[inline]
            fn alloc(&self, $size: usize) -> *mut u8 {
                // SAFETY: the size is above 0, and the peer asks for nothing else.
                let object: *mut ::core::ffi::c_void = unsafe { $alloc };
                object.cast()
            }

            #[inline]
            unsafe fn free(&self, object: *mut u8, $known: usize) {
                let $object = object.cast::<::core::ffi::c_void>();
                // SAFETY: the object came from `alloc` of that size and is given up here.
                unsafe { $free };
            }

            $(
                unsafe fn realloc(&self, object: *mut u8, $new: usize) -> *mut u8 {
                    let $old = object.cast::<::core::ffi::c_void>();
                    // SAFETY: the object came from `alloc` and is given up here.
                    unsafe { $realloc }.cast()
                }
            )?

            $(
                fn calloc(&self, $zeroed: usize) -> *mut u8 {
                    // SAFETY: as in `alloc`.
                    unsafe { $calloc }.cast()
                }
            )?

            $(
                fn enter_thread(&self) {
                    // SAFETY: the peer was made ready when the contender was made.
                    unsafe { $enter };
                }
            )?

            $(
                fn trim(&self) -> bool {
                    // SAFETY: the call may be made at any time.
                    unsafe { $trim };
                    true
                }
            )?

            $(
                fn ask_statistics(&self) -> bool {
                    // SAFETY: the call may be made at any time.
                    ::core::hint::black_box(unsafe { $statistics });
                    true
                }
            )?
        }
    };
}

pub(crate) use peer;
