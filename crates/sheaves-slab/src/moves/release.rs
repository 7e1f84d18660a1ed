//! Release: slabs without allocated objects go back to the chunks, those of type-stable caches once
//! their readers are gone.

use core::sync::atomic::Ordering;

use sheaves_rcu::internal;
use sheaves_sys::{lock, probe};

use crate::moves::registry::REGISTRY;
use crate::parts::slab_lists::SlabLists;
use crate::space::cache_id::CacheId;
use crate::space::hint::Hint;
use crate::space::window::GRANULE_BYTES;
use crate::space::{chunk, slab};

/// A call of [`release_some`] releases this many slabs at most.
const RELEASED_MAX: usize = 32;

/// What [`release_some`] has left of the slabs that it was to release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    Nothing,
    /// Call it again.
    Some,
    /// Slabs of a type-stable cache that still have readers: call [`arm_reclaimer`], without the
    /// lock.
    Readers,
}

/// Releases slabs without allocated objects, until `keep` are left, and [`RELEASED_MAX`] at most.
/// Under the cache's lock. The caller calls [`chunk::do_due_after_free`] once it holds no lock any
/// more.
///
/// Slabs of a type-stable cache stay until their cookies have passed; refills may use them
/// meanwhile.
#[must_use]
pub(crate) fn release_some(id: CacheId, slabs: &mut SlabLists, keep: u32) -> Left {
    let shape = id.shape();
    for _ in 0..RELEASED_MAX {
        if slabs.counts.empty <= keep || shape.unreadable {
            return Left::Nothing;
        }
        let Some(granule) = slabs.releasable(shape) else { return Left::Readers };
        lock::step();
        slabs.unlist(granule);
        slabs.counts.slabs -= 1;
        slabs.counts.slabs_released += 1;
        // Relaxed: the cache's lock orders it before any other use of the slab.
        slab::header(granule).cache.store(0, Ordering::Relaxed);
        granule.set_entry(shape.granules, 0);
        chunk::release_run(granule, shape.granules);
        let bytes = shape.granules * GRANULE_BYTES;
        probe::slab_released(id.number().into(), granule.address(), bytes);
    }
    Left::Some
}

/// [`release_some`] of all slabs without allocated objects; true if it is to be called again.
pub(crate) fn release_step(id: CacheId) -> bool {
    let left = release_some(id, &mut id.descriptor().slabs.lock(), 0);
    if left == Left::Readers {
        arm_reclaimer();
    }
    left == Left::Some
}

/// Arranges that the reclaimer comes back for slabs that still have readers.
#[cold]
pub(crate) fn arm_reclaimer() {
    if REGISTRY.is_held_here() {
        // Read back by this thread, or by another one that calls `arm` instead.
        IS_ARMING_PENDING.set(1);
    } else {
        internal::arm_age();
    }
}

/// The reclaimer is still to be armed. That may start a thread, which must not happen under the
/// registry's lock, nor where libc frees memory: it holds a lock then that a start needs.
static IS_ARMING_PENDING: Hint = Hint::new(0);

/// Called without locks after work under the registry's lock.
pub(crate) fn arm_reclaimer_if_pending() {
    // The exchange has one thread do the work.
    if IS_ARMING_PENDING.get() != 0 && IS_ARMING_PENDING.swap(0) != 0 {
        internal::arm_age();
    }
}

/// The same after frees, which start no thread: the reclaimer arms itself in a sweep. An allocation
/// starts it, if there is none.
pub(crate) fn leave_arming_to_reclaimer() {
    if IS_ARMING_PENDING.get() != 0 && !internal::request_sweep() {
        chunk::note_sweep();
    }
}

/// Releases slabs of a type-stable cache whose cookies have passed; true if there was one.
pub(crate) fn release_ready(id: CacheId) -> bool {
    if !id.shape().typesafe {
        return false;
    }
    let mut slabs = id.descriptor().slabs.lock();
    let before = slabs.counts.slabs;
    // Slabs that still have readers are left for a later round.
    let _left = release_some(id, &mut slabs, id.descriptor().depot.empty_slabs_kept());
    slabs.counts.slabs < before
}
