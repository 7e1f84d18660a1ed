//! `per-object`: objects are linked by a head within them, and freed one by one.

use core::ptr::{NonNull, null_mut};

use sheaves::raw::Cache;

use super::monitor::{Cpu, Cpus, Form};
use super::{SIZES, allocate};
use crate::contender::ledger;
use crate::failure::out_of_memory;

/// The head of an object: 16 bytes, as in the kernel.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Head {
    next: *mut Head,
    /// Place of its size in [`SIZES`].
    class: usize,
}

/// Objects that are linked, the youngest first.
#[derive(Debug)]
pub(super) struct List(*mut Head);

// SAFETY: whoever has the list has the objects.
unsafe impl Send for List {}

impl Default for List {
    fn default() -> List {
        List(null_mut())
    }
}

/// Where objects come from.
pub(super) trait Source: Send + Sync + 'static {
    /// An object of that class.
    fn allocate(&self, class: usize) -> NonNull<u8>;
    /// Takes it back.
    ///
    /// # Safety
    /// Of that class, and nobody uses it any more.
    unsafe fn free(&self, object: NonNull<u8>, class: usize);
    /// Gives memory that is free back to the system.
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
    }

    fn trim(&self) {
        super::trim();
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
    unsafe fn free(&self, object: NonNull<u8>, _class: usize) {
        // SAFETY: the caller's promise.
        unsafe { libc::free(object.as_ptr().cast()) };
    }

    fn trim(&self) {
        // SAFETY: the function has no precondition.
        unsafe { libc::malloc_trim(0) };
    }
}

/// Objects of a source, linked.
#[derive(Debug)]
pub(super) struct Links<S> {
    source: S,
}

impl<S> Links<S> {
    pub(super) fn new(source: S) -> Links<S> {
        Links { source }
    }
}

impl<S: Source> Form for Links<S> {
    type State = List;
    type Taken = List;

    #[inline(never)]
    fn repeat(&self, cpus: &Cpus<List>, groups: usize) {
        for _ in 0..groups {
            for class in 0..SIZES.len() {
                let head = self.source.allocate(class).cast::<Head>().as_ptr();
                cpus.here(|list| {
                    // SAFETY: every object has room for a head, and this one is ours.
                    unsafe { head.write(Head { next: list.0, class }) };
                    list.0 = head;
                });
            }
        }
    }

    fn take(state: &mut List) -> List {
        core::mem::take(state)
    }

    fn free(&self, _: &Cpu<List>, taken: List) {
        let mut next = taken.0;
        while let Some(head) = NonNull::new(next) {
            // SAFETY: the list is ours, and every object in it begins with its head.
            let Head { next: after, class } = unsafe { head.read() };
            next = after;
            // SAFETY: readers are gone, and the object has left the list.
            unsafe { self.source.free(head.cast(), class) };
            ledger::add_freed(SIZES[class]);
        }
    }

    fn trim(&self) {
        self.source.trim();
    }
}
