//! Contenders of the table `bulk`: ways to free many objects of several sizes once readers are
//! gone, all with the same grace periods.

use core::ptr::NonNull;

use sheaves::raw::Cache;
use sheaves_rcu::defer;

use crate::contenders::allocators::library::make_cache;
use crate::contenders::deferred_bytes;
use crate::harness::failure::{Failure, out_of_memory};
use crate::harness::workers::pin_to;
use sheaves_history::kfree_rcu::{CLASSES, Form, KfreeRcu, Source};

/// Sizes of the objects, in turn, in bytes: those of the kernel's test with `kfree_vary_obj_size`.
pub(super) const SIZES: [usize; 4] = [32, 48, 80, 112];
/// Bytes of one object of each size.
pub(super) const GROUP_BYTES: usize = SIZES[0] + SIZES[1] + SIZES[2] + SIZES[3];

/// Defers the free of groups of objects, one of each size.
pub(super) trait Bulk: Send + Sync + 'static {
    /// Whether it tells [`deferred_bytes`] what it frees; otherwise it knows what is deferred.
    const COUNTS: bool = true;

    /// Allocates a group and defers the free of each of its objects, `groups` times.
    fn repeat(&self, groups: usize);

    /// Sees to it that all is free soon. Runs on one thread, until nothing is outstanding, while
    /// the others do nothing.
    fn finish(&self);

    /// Bytes that are deferred and not free yet.
    fn outstanding(&self) -> u64 {
        deferred_bytes::outstanding()
    }

    /// Gives memory that is free back to the system.
    fn trim(&self);
}

const _: () = assert!(SIZES.len() == CLASSES);

/// Starts the frame of `bulk` and `per-object`.
pub(super) fn start<S: Source, F: Form>(source: S) -> Result<KfreeRcu<S, F>, Failure> {
    KfreeRcu::start(source, pin_to)
        .map_err(|error| Failure::run(format!("cannot start a thread: {error}")))
}

impl<S: Source + Trim, F: Form> Bulk for KfreeRcu<S, F> {
    fn repeat(&self, groups: usize) {
        self.repeat(groups);
    }

    fn finish(&self) {
        self.hurry();
        std::thread::yield_now();
    }

    fn trim(&self) {
        self.source().trim();
    }
}

/// Gives memory that is free back to the system.
trait Trim {
    fn trim(&self);
}

/// Caches, one for each size.
#[derive(Debug)]
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

impl Trim for Caches {
    fn trim(&self) {
        trim();
    }
}

/// glibc's malloc.
#[derive(Debug)]
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

impl Trim for Malloc {
    fn trim(&self) {
        // SAFETY: the function has no precondition.
        unsafe { libc::malloc_trim(0) };
    }
}

/// A cache for each size.
pub(super) fn make_caches() -> Result<[Cache; 4], Failure> {
    let [first, second, third, fourth] = SIZES;
    let make = |size| make_cache("bulk", size);
    Ok([make(first)?, make(second)?, make(third)?, make(fourth)?])
}

#[inline]
fn allocate(cache: &Cache) -> NonNull<u8> {
    cache.alloc().unwrap_or_else(|| out_of_memory())
}

/// Of all caches: slabs that one cache gives up would be kept for others otherwise.
fn trim() {
    // How much it was is of no interest.
    let _ = sheaves::trim();
}

/// `sheaves`: one push into the slot's rcu sheaf for each object.
#[derive(Debug)]
pub(super) struct RcuSheaves {
    caches: [Cache; 4],
}

impl RcuSheaves {
    pub(super) fn new() -> Result<RcuSheaves, Failure> {
        Ok(RcuSheaves { caches: make_caches()? })
    }
}

impl Bulk for RcuSheaves {
    const COUNTS: bool = false;

    #[inline(never)]
    fn repeat(&self, groups: usize) {
        for _ in 0..groups {
            for cache in &self.caches {
                // SAFETY: from this cache, and nothing else has its address.
                unsafe { cache.free_rcu(allocate(cache)) };
            }
        }
    }

    fn finish(&self) {
        defer::barrier().expect("this thread is in no section and in no call");
    }

    fn outstanding(&self) -> u64 {
        let bytes = |cache: &Cache| cache.stats().objects_deferred * cache.object_bytes();
        self.caches.iter().map(bytes).sum::<usize>() as u64
    }

    fn trim(&self) {
        trim();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaves_history::kfree_rcu::{Linked, Pages};
    use std::sync::Arc;

    /// A second free of an object would make the count negative, which ends the test.
    fn check<C: Bulk>(contender: C) {
        // More than a page of pointers of each size.
        const GROUPS: usize = 3000;
        let name = core::any::type_name::<C>();
        let _lock = deferred_bytes::lock();
        let contender = Arc::new(contender);
        assert_eq!(contender.outstanding(), 0, "{name}");
        let work = |contender: &C| {
            if C::COUNTS {
                deferred_bytes::add_deferred(GROUPS * GROUP_BYTES);
            }
            contender.repeat(GROUPS);
        };
        let other = Arc::clone(&contender);
        let thread = std::thread::spawn(move || work(&other));
        work(&contender);
        thread.join().unwrap();
        let finish = || contender.finish();
        let is_free = deferred_bytes::wait_until_free(|| contender.outstanding(), finish);
        assert!(is_free, "{name} keeps objects");
        contender.trim();
    }

    #[test]
    fn what_is_deferred_is_freed_once() {
        let caches = || Caches(make_caches().unwrap());
        check(RcuSheaves::new().unwrap());
        check(start::<_, Pages>(caches()).unwrap());
        check(start::<_, Linked>(caches()).unwrap());
        check(start::<_, Linked>(Malloc).unwrap());
    }
}
