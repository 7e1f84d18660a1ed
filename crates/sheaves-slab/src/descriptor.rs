//! Descriptors of the caches, and the table of all of them.
//!
//! The table is static: a number leads to its descriptor by arithmetic, and creating a cache
//! allocates no memory.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};

use sheaves_percpu::internal::Cursor;
use sheaves_sys::lock::Lock;

use crate::cache_id::{CACHES_MAX, CacheId};
use crate::deferred::Queue;
use crate::depot::Depot;
use crate::pool::{self, SHARDS};
use crate::shape::Shape;
use crate::slab_lists::SlabLists;

/// A cache. All zeros until it is created.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Descriptor {
    shape: UnsafeCell<Option<Shape>>,
    /// An object of the cache was deferred at some time.
    deferring: AtomicBool,
    /// The cache's lock.
    pub(crate) slabs: Lock<SlabLists>,
    pub(crate) depot: Depot,
    /// Objects that are deferred and sealed, by slot like the depot.
    pub(crate) deferred: [Queue; SHARDS],
}

impl Descriptor {
    /// True when an object of the cache was deferred at some time.
    #[inline]
    pub(crate) fn is_deferring(&self) -> bool {
        // Acquire pairs with the Release below: a thread that seals everything finds the cache.
        self.deferring.load(Ordering::Acquire)
    }

    pub(crate) fn set_deferring(&self, is_deferring: bool) {
        // Release pairs with the Acquire above.
        self.deferring.store(is_deferring, Ordering::Release);
    }

    /// The current slot's queue of sealed sheaves.
    pub(crate) fn deferred_here(&self) -> &Queue {
        &self.deferred[pool::shard_here()]
    }
}

// SAFETY: `shape` is written under the registry lock, before the first user gets the number or
// after the last one has returned it; every other field is atomic or a lock.
unsafe impl Sync for Descriptor {}

static TABLE: [Descriptor; CACHES_MAX] = [const {
    Descriptor {
        shape: UnsafeCell::new(None),
        deferring: AtomicBool::new(false),
        slabs: Lock::new(SlabLists::new()),
        depot: Depot::new(),
        deferred: [const { Queue::new() }; SHARDS],
    }
}; CACHES_MAX];

impl CacheId {
    #[inline]
    pub(crate) fn descriptor(self) -> &'static Descriptor {
        &TABLE[usize::from(self.number())]
    }

    /// The cache's shape.
    #[inline]
    pub(crate) fn shape(self) -> &'static Shape {
        // SAFETY: written only while the cache has no user, see `Sync` above.
        match unsafe { &*self.descriptor().shape.get() } {
            Some(shape) => shape,
            None => no_such_cache(self),
        }
    }

    /// True when the cache has a shape. Under the registry lock.
    pub(crate) fn has_shape(self) -> bool {
        // SAFETY: written under the lock only.
        unsafe { &*self.descriptor().shape.get() }.is_some()
    }

    /// Writes the shape of a cache without users, or removes it.
    ///
    /// # Safety
    /// The registry lock is held and no user has the number: its bit is not set.
    pub(crate) unsafe fn set_shape(self, shape: Option<Shape>) {
        let descriptor = self.descriptor();
        // SAFETY: the caller guarantees that no other thread reads it now.
        unsafe { *descriptor.shape.get() = shape };
        if let Some(shape) = &shape {
            descriptor.depot.reset(shape);
            *descriptor.slabs.lock() = SlabLists::new();
        }
    }

    /// Takes a full sheaf from the depot; returns its cursor.
    pub(crate) fn take_full(self) -> Option<Cursor> {
        self.descriptor().depot.take_full()
    }
}

#[cold]
fn no_such_cache(id: CacheId) -> ! {
    sheaves_sys::report::die(format_args!(
        "cache number {} does not exist (destroyed?)",
        id.number()
    ))
}
