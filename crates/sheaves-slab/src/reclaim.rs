//! Taking caches back: out of the slots, out of the depot, back to the system.

use sheaves_percpu::sheaf::{ENTRIES, is_full};
use sheaves_percpu::slots;
use sheaves_rcu::Cookie;

use crate::descriptor::CacheId;
use crate::pool::{self, Sheaf, SheafStack};
use crate::{chunk, deferred, depot, flush, refill, registry, slab};

/// Takes everything that rests in slots and depot back to the slabs, releases slabs with no object
/// out, and gives the pages of free objects in the others back to the system. False when some slot
/// could not be reached: its objects stay where they are.
pub(crate) fn shrink(id: CacheId) -> bool {
    deferred::reclaim(id);
    let complete = drain(id);
    depot::empty(id);
    let shape = id.shape();
    let mut slabs = id.descriptor().slabs.lock();
    slabs.sort(shape);
    let is_done = refill::release_empty(id, &mut slabs, 0);
    // What a constructor wrote has to stay, so has the poison of a checked cache, and what late
    // readers of a type-stable one still look at.
    if shape.constructor.is_none() && !shape.debug && !shape.typesafe {
        slabs.for_each(|slab| {
            slab::discard_free_objects(slab, shape.stride, shape.slab_objects);
        });
    }
    drop(slabs);
    if !is_done {
        refill::slabs_wait(id);
    }
    complete
}

/// Takes the sheaves out of every slot and flushes them.
///
/// They wait on a stack of their own meanwhile: nothing may be flushed under the slots lock.
fn drain(id: CacheId) -> bool {
    let taken = SheafStack::new();
    let complete = slots::drain(&[id.allocs(), id.frees()], &mut |_, cursor| {
        let sheaf = Sheaf::of_cursor(cursor);
        if !is_full(cursor) {
            // SAFETY: the drain made the sheaf ours.
            let last = unsafe { sheaf.entries(ENTRIES - 1, 1) };
            last[0] = encode(cursor - sheaf.cursor(0));
        }
        taken.push(sheaf);
    });
    while let Some(sheaf) = taken.pop() {
        // SAFETY: popped from our own stack, so ours.
        let last = unsafe { sheaf.entries(ENTRIES - 1, 1) }[0];
        let offset = decode(last).unwrap_or((ENTRIES - 1) * 8);
        flush::flush_sheaf(id, sheaf.cursor(0) + offset);
    }
    complete
}

/// The fill of a sheaf that is not full, as an odd number for its last entry; objects are even.
fn encode(cursor_offset: usize) -> usize {
    cursor_offset | 1
}

fn decode(last: usize) -> Option<usize> {
    (last & 1 != 0).then_some(last & !1)
}

/// Gives back what can be given back, of all caches: drains every slot, empties every depot,
/// returns free memory to the system, that of per-CPU objects too. Returns the bytes of heap
/// returned.
///
/// Interrupts the processors that run this process, once per cache. May sleep on locks.
pub fn trim() -> usize {
    deferred::finish();
    registry::map_existing(shrink).for_each(drop);
    refill::tell_of_slabs();
    sheaves_percpu::memory::trim();
    chunk::trim() + pool::trim()
}

/// Removes a cache, after a grace period if objects of it are deferred or it is type-stable. `Err`
/// with the number of objects that are still out (0 when a slot could not be drained); then the
/// cache goes on to exist.
pub(crate) fn destroy(id: CacheId) -> Result<(), usize> {
    loop {
        let result = try_destroy(id);
        refill::tell_of_slabs();
        chunk::purge_if_due();
        if result != Err(AGAIN) {
            return result;
        }
    }
}

/// Stands for no number of objects: nothing is out, but what the reclaimer of `sheaves-rcu` had in
/// its hands has come back so late that its slabs wait for another grace period.
const AGAIN: usize = usize::MAX;

fn try_destroy(id: CacheId) -> Result<(), usize> {
    let mut may_end = deferred::drain(id);
    if may_end && id.shape().typesafe {
        // Slabs become empty now: their cookies pass in the grace period that follows.
        shrink(id);
        may_end = Cookie::get().wait_expedited().is_ok();
    }
    if !may_end {
        return Err(crate::stats::objects_outside_slabs(id));
    }
    registry::remove_if(id, || {
        // Whoever was about to move a slab is gone, here or with a fork without handlers.
        id.descriptor().slabs.lock().set_unsorted();
        let complete = shrink(id);
        let out = crate::stats::objects_outside_slabs(id);
        if out != 0 || !complete {
            return Err(out);
        }
        if id.descriptor().slabs.lock().count != 0 {
            return Err(AGAIN);
        }
        deferred::forget(id);
        Ok(())
    })
}
