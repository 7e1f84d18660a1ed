//! Shrinking and destroying caches: from slots and depot to slabs, from slabs to chunks, from there
//! to the kernel.

use sheaves_rcu::Cookie;
use sheaves_sys::membarrier::Reach;

use crate::checked::{incoming, quarantine};
use crate::deferred;
use crate::moves::{flush, registry, release};
use crate::parts::pool;
use crate::space::cache_id::CacheId;
use crate::space::{chunk, slab};

/// Flushes the sheaves of slots and depot to the slabs, releases slabs without allocated objects,
/// and discards the pages of free objects in the other slabs. False when a slot was not reached
/// that has objects: they stay there.
pub(crate) fn shrink(id: CacheId, reach: Reach) -> bool {
    deferred::reclaim(id);
    let complete = incoming::flush_slots(id, reach);
    let shape = id.shape();
    if !shape.is_plain() {
        quarantine::flush_queue(id);
    }
    release_depot_and_slabs(id);
    if shape.may_discard() {
        for (granule, _) in id.descriptor().slabs.lock().with_free_objects() {
            slab::discard_free_objects(granule, shape.stride, shape.slab_objects);
        }
    }
    complete
}

fn release_depot_and_slabs(id: CacheId) {
    id.descriptor().depot.reset_limit(id.shape());
    flush::flush_depot(id, usize::MAX);
    let mut slabs = id.descriptor().slabs.lock();
    slabs.sort(id.shape());
    let is_done = release::release_empty(id, &mut slabs, 0);
    drop(slabs);
    if !is_done {
        release::arm_reclaimer();
    }
}

/// Before an allocation fails: memory that caches hold unused becomes free: depots, and sheaves of
/// the current slot, since those of others would cost a membarrier. No system call is made. True if
/// granules became free.
#[cold]
pub(crate) fn release_before_failing() -> bool {
    let used_bytes = chunk::footprint().used_bytes;
    let release = |id: CacheId| {
        // Not those of hardened caches: what was freed there waits for a purpose.
        if id.shape().is_plain() {
            flush::flush_here(id);
        }
        release_depot_and_slabs(id);
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
    registry::map_existing(|id| shrink(id, reach)).for_each(drop);
    release::arm_reclaimer_if_pending();
    if reach == Reach::Interrupts {
        sheaves_percpu::memory::trim();
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
        shrink(id, Reach::Interrupts);
        may_end = Cookie::get().wait_expedited().is_ok();
    }
    if !may_end {
        return Err(objects_outside_slabs(id));
    }
    registry::remove_if(id, || {
        // A slab may be on a wrong list: its thread has not moved it yet, or is not in this child.
        id.descriptor().slabs.lock().is_unsorted = true;
        let complete = shrink(id, Reach::Interrupts);
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
