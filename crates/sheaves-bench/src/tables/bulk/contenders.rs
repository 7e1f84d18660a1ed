//! Contenders of the table `bulk`: ways to free many objects of several sizes once readers are
//! gone, all with the same grace periods.

use core::ptr::NonNull;

use sheaves::raw::Cache;
use sheaves_rcu::defer;

use crate::contenders::allocators::library::make_cache;
use crate::contenders::deferral::{Deferral, grace_periods};
use crate::contenders::deferred_bytes;
use crate::harness::{Failure, out_of_memory, pin_to};
use sheaves_history::kfree_rcu::{CLASSES, Form, KfreeRcu, Source};

/// Sizes of the objects, in turn, in bytes: those of the kernel's test with `kfree_vary_obj_size`.
pub(super) const SIZES: [usize; 4] = [32, 48, 80, 112];
pub(super) const GROUP_BYTES: usize = SIZES[0] + SIZES[1] + SIZES[2] + SIZES[3];

const _: () = assert!(SIZES.len() == CLASSES);

/// Starts the frame of `bulk` and `per-object`.
pub(super) fn start<S: Source, F: Form>(source: S) -> Result<KfreeRcu<S, F>, Failure> {
    KfreeRcu::start(source, pin_to).map_err(Failure::no_thread)
}

impl<S: Source, F: Form> Deferral for KfreeRcu<S, F> {
    fn dispose(&self) {
        self.repeat(1);
    }

    fn repeat(&self, groups: usize) {
        self.repeat(groups);
    }

    fn finish(&self) {
        self.hurry();
        std::thread::yield_now();
    }

    fn periods(&self) -> Option<u64> {
        grace_periods()
    }
}

pub(super) struct Caches(pub(super) [Cache; 4]);

impl Source for Caches {
    #[inline]
    fn allocate(&self, class: usize) -> NonNull<u8> {
        allocate(&self.0[class])
    }

    #[inline]
    unsafe fn free(&self, object: NonNull<u8>, class: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0[class].free(object) };
        deferred_bytes::add_freed(SIZES[class]);
    }

    #[inline]
    unsafe fn free_bulk(&self, objects: &[NonNull<u8>], class: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0[class].free_bulk(objects) };
        deferred_bytes::add_freed(objects.len() * SIZES[class]);
    }
}

pub(super) struct Malloc;

impl Source for Malloc {
    #[inline]
    fn allocate(&self, class: usize) -> NonNull<u8> {
        // SAFETY: malloc may be called with any size.
        let object = unsafe { libc::malloc(SIZES[class]) };
        NonNull::new(object.cast()).unwrap_or_else(|| out_of_memory())
    }

    #[inline]
    unsafe fn free(&self, object: NonNull<u8>, class: usize) {
        // SAFETY: the caller's promise.
        unsafe { libc::free(object.as_ptr().cast()) };
        deferred_bytes::add_freed(SIZES[class]);
    }

    unsafe fn free_bulk(&self, objects: &[NonNull<u8>], class: usize) {
        for object in objects {
            // SAFETY: the caller's promise.
            unsafe { self.free(*object, class) };
        }
    }
}

pub(super) fn make_caches() -> Result<[Cache; 4], Failure> {
    let [first, second, third, fourth] = SIZES;
    let make = |size| make_cache("bulk", size);
    Ok([make(first)?, make(second)?, make(third)?, make(fourth)?])
}

#[inline]
fn allocate(cache: &Cache) -> NonNull<u8> {
    cache.alloc().unwrap_or_else(|| out_of_memory())
}

/// Gives memory that is free back to the kernel, whichever contender had it.
pub(super) fn trim() {
    // How much it was is of no interest. Of all caches: slabs that one cache gives up would be kept
    // for others otherwise.
    let _ = sheaves::trim(0);
    // SAFETY: the function has no precondition.
    unsafe { libc::malloc_trim(0) };
}

/// `sheaves`: one push into the slot's deferred sheaf for each object.
pub(super) struct RcuSheaves {
    pub(super) caches: [Cache; 4],
}

impl Deferral for RcuSheaves {
    const COUNTS: bool = false;

    /// A group.
    #[inline]
    fn dispose(&self) {
        for cache in &self.caches {
            // SAFETY: from this cache, and nothing else has its address.
            unsafe { cache.free_rcu(allocate(cache)) };
        }
    }

    fn finish(&self) {
        defer::barrier().expect("this thread is in no section and in no call");
    }

    fn outstanding(&self) -> u64 {
        let bytes = |cache: &Cache| cache.stats().objects_deferred * cache.object_bytes();
        self.caches.iter().map(bytes).sum::<usize>() as u64
    }

    fn periods(&self) -> Option<u64> {
        grace_periods()
    }
}
