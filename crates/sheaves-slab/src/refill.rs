//! From slabs into sheaves.
//!
//! Under the cache's lock: takes objects from the fullest slab, in address order, without
//! touching them. Without it: makes a new slab when no listed one has any. Where several threads do
//! so at a time, slabs are left over, which are not touched, and given back like others.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use sheaves_rcu::defer;
use sheaves_sys::lock::assert_none_held;

use crate::bins::Slabs;
use crate::chunk::Unfinished;
use crate::counts::count;
use crate::descriptor::{CacheId, Shape};
use crate::granule::Granule;
use crate::window::GRANULE_BYTES;
use crate::{chunk, deferred, registry, slab};

/// Slabs with no object out that a cache keeps.
pub(crate) const EMPTY_SLABS_KEPT: u32 = 1;

/// Fills `out` with objects, so that reading it from the back gives ascending addresses within a
/// slab. Returns how many, at the back of `out`; fewer than asked for when memory is short.
pub(crate) fn refill(id: CacheId, out: &mut [usize]) -> usize {
    let shape = id.shape();
    let mut place = out.len();
    let mut made = None;
    while place > 0 {
        let mut slabs = id.descriptor().slabs.lock();
        if let Some(made) = made.take() {
            add_slab(id, shape, &mut slabs, &made);
        }
        while place > 0
            && let Some(granule) = slabs.fullest(shape)
        {
            let address = granule.address();
            slab::header(granule).take(place, |index| {
                place -= 1;
                out[place] = address + index * shape.stride;
            });
            slabs.move_slab(granule, shape);
        }
        drop(slabs);
        if place > 0 {
            made = make_slab(shape);
            if made.is_none() {
                break;
            }
        }
    }
    count!(id, refills);
    out.len() - place
}

/// Makes the objects of a new slab, which nobody knows yet. Without a lock: constructors are the
/// program's, and may allocate, wait, or fork. `None` when there is no memory.
fn make_slab(shape: &Shape) -> Option<Unfinished> {
    let made = chunk::begin_run(shape.granules, shape.granules)?;
    let address = made.run.first.address();
    if shape.debug && !made.run.is_zero {
        let start = core::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: the run was just taken and nobody else has it.
        unsafe { start.write_bytes(0, shape.granules * GRANULE_BYTES) };
    }
    if let Some(constructor) = shape.constructor {
        assert_none_held();
        for index in 0..shape.slab_objects {
            let object = core::ptr::with_exposed_provenance_mut(address + index * shape.stride);
            if let Some(object) = NonNull::new(object) {
                // SAFETY: the object is `size` bytes of a run that nobody else has; whoever gave
                // the constructor vouches for the rest.
                unsafe { constructor(object) };
            }
        }
    }
    Some(made)
}

/// Lists a new slab: from now on it is the cache's, also in a child.
fn add_slab(id: CacheId, shape: &Shape, slabs: &mut Slabs, made: &Unfinished) {
    let first = made.run.first;
    slab::header(first).init(id.in_header(), shape.slab_objects);
    first.set_owner(shape.granules, id.owner(), id.owner());
    slabs.count += 1;
    count!(id, slabs_made);
    slabs.list(first, shape);
    chunk::finish_run(made);
}

/// Gives slabs with no object out back, until `keep` are left. Under the cache's lock; whoever
/// gives that back calls [`chunk::purge_if_due`] when it has no other either.
///
/// Those of a type-stable cache stay until their readers are gone; they can be refilled from. False
/// if there is one: then [`slabs_wait`] is to be called without the lock.
#[must_use]
pub(crate) fn release_empty(id: CacheId, slabs: &mut Slabs, keep: u32) -> bool {
    let is_typesafe = id.shape().typesafe;
    while slabs.empty > keep {
        let Some(granule) = slabs.an_empty_one(is_typesafe) else { return false };
        slabs.unlist(granule);
        release(id, slabs, granule);
    }
    true
}

/// Sees to it that somebody comes back for slabs whose readers are still there.
#[cold]
pub(crate) fn slabs_wait(id: CacheId) {
    deferred::start(id);
    if registry::is_held_here() {
        // Relaxed: a flag for this thread, or one that has nothing to do with it.
        IS_UNTOLD.store(true, Ordering::Relaxed);
    } else {
        defer::arm();
    }
}

/// Slabs wait, and `sheaves-rcu` was not told: under the registry's lock it must not start a
/// thread.
static IS_UNTOLD: AtomicBool = AtomicBool::new(false);

/// Tells it. Called without locks after work under the registry's lock.
pub(crate) fn tell_of_slabs() {
    // Relaxed, both: as above; the exchange has one thread do it.
    if IS_UNTOLD.load(Ordering::Relaxed) && IS_UNTOLD.swap(false, Ordering::Relaxed) {
        defer::arm();
    }
}

/// Releases slabs of a type-stable cache whose readers are gone; true if there was one.
pub(crate) fn release_ready(id: CacheId) -> bool {
    if !id.shape().typesafe {
        return false;
    }
    let mut slabs = id.descriptor().slabs.lock();
    let before = slabs.count;
    // What still has readers is for a later round.
    let _is_done = release_empty(id, &mut slabs, EMPTY_SLABS_KEPT);
    slabs.count < before
}

fn release(id: CacheId, slabs: &mut Slabs, granule: Granule) {
    let shape = id.shape();
    slabs.count -= 1;
    // Relaxed: the cache's lock orders it before any other use of the slab.
    slab::header(granule).cache.store(0, Ordering::Relaxed);
    count!(id, slabs_released);
    granule.set_owner(shape.granules, 0, 0);
    chunk::put_run(granule, shape.granules);
}
