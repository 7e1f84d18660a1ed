//! Shrinking and destroying caches: from slots and depot to slabs, from slabs to chunks, from there
//! to the kernel.

use core::sync::atomic::Ordering;

use sheaves_percpu::internal::slots;
use sheaves_rcu::Cookie;
use sheaves_sys::lock::STEPS_MAX;
use sheaves_sys::membarrier::Reach;

use crate::checked::{incoming, quarantine};
use crate::deferred;
use crate::moves::registry::{self, if_existing};
use crate::moves::{flush, release};
use crate::parts::pool;
use crate::returning::tick;
use crate::space::cache_id::CacheId;
use crate::space::granule::{self, Granule};
use crate::space::{chunk, slab};

/// Flushes the sheaves of slots and depot to the slabs, releases slabs without allocated objects,
/// and discards the pages of free objects in the other slabs. False when a slot was not reached
/// that has objects: they stay there.
pub(crate) fn shrink(id: CacheId) -> bool {
    let is_complete = release_unused(id, Reach::Interrupts);
    let is_of_cache = |granule: &Granule| {
        // Relaxed: a hint.
        slab::header(*granule).cache.load(Ordering::Relaxed) == id.in_header()
    };
    if id.shape().may_discard() {
        granule::in_slabs().filter(is_of_cache).for_each(tick::discard_holes);
    }
    is_complete
}

/// [`shrink`] but for the pages. The registry's lock, for which forks wait, is held for a step at a
/// time.
fn release_unused(id: CacheId, reach: Reach) -> bool {
    deferred::reclaim_if_existing(id);
    let is_complete = if_existing(id, |id| flush_slots(id, reach));
    quarantine::flush_queue(id);
    tick::flush_depot(id, usize::MAX);
    while if_existing(id, sort_step) == Some(true) {}
    while if_existing(id, release::release_step) == Some(true) {}
    is_complete.unwrap_or(true)
}

/// The same under the registry's lock, for a cache that is to go.
fn empty(id: CacheId) -> bool {
    deferred::reclaim(id);
    let is_complete = flush_slots(id, Reach::Interrupts);
    while quarantine::flush_oldest(id) != 0 {}
    flush::flush_depot(id, usize::MAX);
    while sort_step(id) {}
    while release::release_step(id) {}
    is_complete && !has_sheaves(id)
}

/// True if slots that were not reached have sheaves, which may be empty: another cache with the
/// number would use them.
fn has_sheaves(id: CacheId) -> bool {
    let mut any = false;
    slots::observe(&id.words(), &mut |_, _, _| any = true);
    any
}

fn flush_slots(id: CacheId, reach: Reach) -> bool {
    let is_complete = incoming::flush_slots(id, reach);
    id.descriptor().depot.reset_limit(id.shape());
    is_complete
}

/// True if there are others to look at.
fn sort_step(id: CacheId) -> bool {
    id.descriptor().slabs.lock().sort(id.shape(), STEPS_MAX / 2)
}

/// Before an allocation fails: memory that caches hold unused becomes free: what was deferred and
/// is ready, depots, and sheaves of the current slot, since those of others would cost a
/// membarrier. No system call is made. True if granules became free.
#[cold]
pub(crate) fn release_before_failing() -> bool {
    let used_bytes = chunk::footprint().used_bytes;
    deferred::reclaim_all();
    let release = |id: CacheId| {
        // Not those of hardened caches: what was freed there waits for a purpose.
        if id.shape().is_plain() {
            flush::flush_here(id);
        }
        id.descriptor().depot.reset_limit(id.shape());
        flush::flush_depot(id, usize::MAX);
        while release::release_step(id) {}
    };
    registry::map_existing(release).for_each(drop);
    release::arm_reclaimer_if_pending();
    chunk::footprint().used_bytes < used_bytes
}

/// Returns unused memory of all caches to the kernel: drains every slot, empties every depot, and
/// returns free memory, including that of per-CPU objects, until at most `keep_bytes` are free and
/// hold old contents. Returns the bytes of heap that were returned.
///
/// Interrupts the CPUs that run this process, once per cache. May sleep on locks.
pub fn trim(keep_bytes: usize) -> usize {
    trim_in(keep_bytes, Reach::Interrupts)
}

/// [`trim`] of what is in reach.
pub(crate) fn trim_in(keep_bytes: usize, reach: Reach) -> usize {
    deferred::reclaim_all();
    for id in registry::all_ids() {
        release_unused(id, reach);
    }
    granule::in_slabs().for_each(tick::discard_holes);
    if reach == Reach::Interrupts {
        release::arm_reclaimer_if_pending();
        sheaves_percpu::memory::trim();
    } else {
        release::leave_arming_to_reclaimer();
    }
    chunk::trim(keep_bytes) + pool::trim()
}

/// Removes a cache, after a grace period if objects of it are deferred or it is type-stable. `Err`
/// with the number of objects that are still allocated (0 when a slot could not be drained); then
/// the cache remains.
pub(crate) fn destroy(id: CacheId) -> Result<(), usize> {
    loop {
        let result = try_destroy(id);
        release::arm_reclaimer_if_pending();
        chunk::do_due_after_free();
        if result != Err(AGAIN) {
            return result;
        }
    }
}

/// Not a number of objects: all are back, but the reclaimer of `sheaves-rcu` returned some so late
/// that their slabs wait for another grace period.
const AGAIN: usize = usize::MAX;

fn try_destroy(id: CacheId) -> Result<(), usize> {
    let mut may_end = deferred::wait_and_reclaim(id);
    if may_end && id.shape().typesafe {
        // Slabs become empty here; their cookies pass in the grace period that follows.
        shrink(id);
        may_end = Cookie::get().wait_expedited().is_ok();
    }
    if !may_end {
        return Err(objects_outside_slabs(id));
    }
    // What is long, without the registry's lock.
    release_unused(id, Reach::Interrupts);
    registry::remove_if(id, || {
        // A slab may be on a wrong list: its thread has not moved it yet, or is not in this child.
        id.descriptor().slabs.lock().note_unsorted();
        let complete = empty(id);
        let out = objects_outside_slabs(id);
        if out != 0 || !complete {
            return Err(out);
        }
        if id.descriptor().slabs.lock().counts.slabs != 0 {
            return Err(AGAIN);
        }
        id.set_deferring(false);
        Ok(())
    })
}

/// Objects that are not in slabs, exact when no other thread uses the cache.
fn objects_outside_slabs(id: CacheId) -> usize {
    let slabs = id.descriptor().slabs.lock();
    slabs.counts.slabs as usize * id.shape().slab_objects - slabs.free_objects()
}
