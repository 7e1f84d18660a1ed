//! Sheaves: deferred sheaves, deferred calls, and what both are held against on the same allocator.

use core::ptr::NonNull;
use std::sync::OnceLock;

use sheaves::raw::Cache;
use sheaves_rcu::defer::{self, Head};

use super::memory::{OBJECT_BYTES, Object, write};
use crate::contenders::allocators::library::make_cache;
use crate::contenders::deferral::{Deferral, grace_periods};
use crate::contenders::deferred_bytes;
use crate::harness::{Failure, out_of_memory};

#[inline]
pub(super) fn allocate(cache: &Cache) -> NonNull<Object> {
    write(cache.alloc().map_or(core::ptr::null_mut(), NonNull::as_ptr))
}

/// `sheaves`: one push into the slot's deferred sheaf.
pub(super) struct RcuSheaves {
    pub(super) cache: Cache,
}

impl Deferral for RcuSheaves {
    const COUNTS: bool = false;

    fn enter_thread(&self) {
        // Grace periods have to wait for it from now on, as for any thread that reads.
        drop(sheaves_rcu::read());
    }

    fn leave_thread(&self) {
        sheaves_rcu::enter_idle();
    }

    #[inline]
    fn dispose(&self) {
        let object = allocate(&self.cache);
        // SAFETY: from this cache, and nothing else has its address.
        unsafe { self.cache.free_rcu(object.cast()) };
    }

    fn finish(&self) {
        defer::barrier().expect("this thread is in no section and in no call");
    }

    fn outstanding(&self) -> u64 {
        (self.cache.stats().objects_deferred * OBJECT_BYTES) as u64
    }

    fn periods(&self) -> Option<u64> {
        grace_periods()
    }
}

/// `floor`: the same allocator, and a free at once.
pub(super) struct Floor {
    pub(super) cache: Cache,
}

impl Deferral for Floor {
    const COUNTS: bool = false;

    #[inline]
    fn dispose(&self) {
        let object = allocate(&self.cache);
        // SAFETY: from this cache, and nothing else has its address.
        unsafe { self.cache.free(object.cast()) };
    }

    fn outstanding(&self) -> u64 {
        0
    }
}

/// `without`: no object at all. For loops that do something else as well.
pub(super) struct Without;

impl Deferral for Without {
    const COUNTS: bool = false;

    #[inline]
    fn dispose(&self) {}

    fn outstanding(&self) -> u64 {
        0
    }
}

/// The cache of those contenders whose calls free objects: calls get nothing but the object.
static CACHE: OnceLock<Cache> = OnceLock::new();

pub(super) fn cache_of_calls() -> Result<&'static Cache, Failure> {
    if CACHE.get().is_none() {
        // A thread that comes second has made one in vain.
        let _ = CACHE.set(make_cache("calls", OBJECT_BYTES)?);
    }
    CACHE.get().ok_or_else(|| Failure::run("no cache of calls"))
}

/// Frees an object of that cache, and counts it.
///
/// # Safety
/// The object is from [`allocate`] with that cache, and it is not used any more.
#[inline]
pub(super) unsafe fn free(object: NonNull<Object>) {
    let Some(cache) = CACHE.get() else { out_of_memory() };
    // SAFETY: the caller's promise; there is one cache.
    unsafe { cache.free(object.cast()) };
    deferred_bytes::add_freed(OBJECT_BYTES);
}

/// `after`: a deferred call for each object, in the slot's buffer.
pub(super) struct Calls {
    pub(super) cache: &'static Cache,
}

impl Deferral for Calls {
    #[inline]
    fn dispose(&self) {
        let object = allocate(self.cache);
        let head = object.cast::<Head>();
        // SAFETY: the object begins with room for the head, and is ours.
        unsafe { head.write(Head::new()) };
        // SAFETY: the head is idle, and the object stays where it is until the call.
        unsafe { defer::call_rcu(head.as_ptr(), call) };
    }

    fn finish(&self) {
        defer::barrier().expect("this thread is in no section and in no call");
    }

    fn periods(&self) -> Option<u64> {
        grace_periods()
    }
}

const _: () = assert!(size_of::<Head>() <= size_of::<[u64; 2]>());

/// # Safety
/// The head is that of an object of [`Calls`], whose readers are gone.
unsafe extern "C" fn call(head: *mut Head) {
    // SAFETY: never null.
    let object = unsafe { NonNull::new_unchecked(head) };
    // SAFETY: the caller's promise.
    unsafe { free(object.cast()) };
}
