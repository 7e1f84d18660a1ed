//! Object caches (stub with the final signatures).
#![no_std]
/// Raw caches.
pub mod raw {
    use core::{alloc::Layout, mem::MaybeUninit, ptr::NonNull};
    /// Why a cache could not be made.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CacheError {
        /// Size or alignment out of range.
        Layout,
        /// No identifier left.
        TooMany,
        /// No memory.
        OutOfMemory,
    }
    /// Options of a cache.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct Options {
        /// Runs once for each object when its slab is made.
        pub constructor: Option<unsafe fn(NonNull<u8>)>,
        /// Objects come back zeroed.
        pub zero: bool,
        /// Every check on every call.
        pub debug: bool,
    }
    /// A cache of equal objects.
    #[derive(Debug)]
    pub struct Cache(pub Layout);
    unsafe extern "C" {
        fn malloc(n: usize) -> *mut u8;
        fn free(p: *mut u8);
    }
    impl Cache {
        /// Makes a cache.
        pub fn new(_name: &str, layout: Layout, _o: Options) -> Result<Cache, CacheError> {
            Ok(Cache(layout))
        }
        /// One object.
        #[inline]
        pub fn alloc(&self) -> Option<NonNull<u8>> {
            NonNull::new(unsafe { malloc(self.0.size()) })
        }
        /// Gives it back.
        /// # Safety
        /// From this cache.
        #[inline]
        pub unsafe fn free(&self, object: NonNull<u8>) {
            unsafe { free(object.as_ptr()) }
        }
        /// As many as fit; returns how many.
        pub fn alloc_bulk(&self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
            for o in out.iter_mut() {
                o.write(self.alloc().unwrap());
            }
            out.len()
        }
        /// Frees all.
        /// # Safety
        /// From this cache.
        pub unsafe fn free_bulk(&self, objects: &[NonNull<u8>]) {
            for o in objects {
                unsafe { self.free(*o) }
            }
        }
    }
}
