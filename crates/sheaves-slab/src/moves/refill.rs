//! Refill: from slabs into sheaves.
//!
//! Under the cache's lock, a refill takes objects from the fullest slab, in address order, without
//! touching them; where objects share lines, from one that serves its slot, see `home`. When there
//! is none it creates one, without the lock. Several threads may do so at a time; the surplus slabs
//! are never touched, and are released like others.

use core::ptr::NonNull;

use sheaves_percpu::internal::Cursor;
use sheaves_sys::lock::{self, assert_none_held};
use sheaves_sys::{map, probe, tsan};

use crate::moves::{home, tags};
use crate::parts::pool;
use crate::parts::shape::Shape;
use crate::parts::slab_lists::SlabLists;
use crate::records::object_bytes::{self, NEW};
use crate::space::cache_id::CacheId;
use crate::space::chunk::Run;
use crate::space::granule::Granule;
use crate::space::hint::Hint;
use crate::space::window::GRANULE_BYTES;
use crate::space::{checking, chunk, slab};

/// Fills `out` with objects, so that reading it from the back gives ascending addresses within a
/// slab. Returns how many there are, at the end of `out`; fewer than its length when memory is out.
pub(crate) fn refill(id: CacheId, out: &mut [usize]) -> usize {
    let shape = id.shape();
    let mut place = out.len();
    let mut made = None;
    let mut slot = home::slot_for(shape);
    while place > 0 {
        let mut slabs = id.descriptor().slabs.lock();
        match made.take() {
            Some(made) => add_slab(id, shape, &mut slabs, &made),
            None => slabs.counts.refills += 1,
        }
        while place > 0
            && let Some(granule) = match slot {
                Some(slot) => slabs.for_slot(slot, shape),
                None => slabs.fullest(shape),
            }
        {
            take_from(granule, shape, &mut slabs, place, |object| {
                place -= 1;
                out[place] = object;
            });
            // What is taken is less each time.
            lock::restart_steps();
        }
        drop(slabs);
        if place > 0 {
            made = make_slab(shape);
            if made.is_none() && slot.take().is_none() {
                break;
            }
        }
    }
    let count = out.len() - place;
    if !shape.is_plain() {
        object_bytes::prepare(shape, &mut out[place..]);
    }
    id.descriptor().depot.count_refill(shape, count);
    probe::refill(id.number().into(), out.len(), count, shape.size);
    count
}

/// Takes up to `wanted` objects of a slab, and moves it to its list. `put` gets each object, with
/// [`NEW`] if it was never allocated.
#[inline]
fn take_from(
    granule: Granule,
    shape: &Shape,
    slabs: &mut SlabLists,
    wanted: usize,
    mut put: impl FnMut(usize),
) {
    let slab = slab::header(granule);
    slab.take(!shape.is_plain(), wanted, |index, is_new| {
        put(granule.address() + index * shape.stride + if is_new { NEW } else { 0 });
        if !shape.is_plain() && !shape.has_canary() {
            slab.let_go(index);
        }
    });
    slabs.move_slab(granule, shape);
}

/// A sheaf filled from slabs, perhaps in part; `None` when memory is out.
pub(crate) fn refilled_sheaf(id: CacheId) -> Option<Cursor> {
    let depot = &id.descriptor().depot;
    depot.missed(id.shape());
    let empty = tags::sized(id, depot.empty_sheaf()?);
    // SAFETY: taken from the pool, owned by us, no other reference.
    let room = unsafe { empty.room() };
    let count = refill(id, room);
    if count == 0 {
        pool::put_empty(empty.sheaf());
        return None;
    }
    // A short refill leaves its objects at the end.
    tsan::unseen(|| room.copy_within(room.len() - count.., 0));
    Some(empty.up(count))
}

/// Takes one object from a watched slab; `None` when memory is out.
pub(crate) fn take_watched(id: CacheId) -> Option<usize> {
    let shape = id.shape();
    let mut made = None;
    loop {
        let mut slabs = id.descriptor().slabs.lock();
        if let Some(made) = made.take() {
            add_slab(id, shape, &mut slabs, &made);
        }
        if let Some(granule) = slabs.watched(shape) {
            let mut taken = [0];
            take_from(granule, shape, &mut slabs, 1, |object| taken = [object]);
            drop(slabs);
            if !shape.is_plain() {
                object_bytes::prepare(shape, &mut taken);
            }
            id.descriptor().depot.count_refill(id.shape(), 1);
            return Some(taken[0]);
        }
        drop(slabs);
        made = Some(make_slab(shape)?);
    }
}

/// Prepares the objects of a new slab that no other thread knows yet. Without a lock: constructors
/// are the program's code, and may allocate, wait, or fork. `None` when memory is out.
fn make_slab(shape: &Shape) -> Option<Run> {
    let made = chunk::begin_run(shape.granules, shape.slab_align())?;
    let address = made.first.address();
    if !shape.is_plain() && !made.reads_zero {
        object_bytes::zero(address, shape.granules * GRANULE_BYTES, usize::MAX);
    }
    if let Some(constructor) = shape.constructor {
        assert_none_held();
        for index in 0..shape.slab_objects {
            let object = core::ptr::with_exposed_provenance_mut(address + index * shape.stride);
            if let Some(object) = NonNull::new(object) {
                // SAFETY: the object is `size` bytes of a run that nothing else uses; the caller
                // that passed the constructor is responsible for the rest.
                unsafe { constructor(object) };
            }
        }
    }
    make_guard();
    Some(made)
}

/// There is a guard for this many granules of slabs.
const GRANULES_PER_GUARD: usize = 8;

/// Makes a granule between slabs inaccessible for good, at level 2, if there are few: a write that
/// goes on for a megabyte ends there. Guards take a sixteenth of the mappings of the process.
fn make_guard() {
    static GUARDS: Hint = Hint::new(0);
    let guards = GUARDS.get();
    if !checking::is_exact()
        || guards * GRANULES_PER_GUARD * GRANULE_BYTES >= chunk::footprint().used_bytes
        || guards >= map::MAPPINGS_MAX / 16
    {
        return;
    }
    if let Some(guard) = chunk::begin_run(1, 1) {
        GUARDS.add(1);
        // First: a child frees runs that are not finished, and uses them again.
        chunk::finish_run(&guard);
        // SAFETY: a run of its own, in which nothing is live.
        unsafe { map::uncommit(guard.first.address(), GRANULE_BYTES) };
    }
}

/// Lists a new slab: from here on it is the cache's, also in a child.
fn add_slab(id: CacheId, shape: &Shape, slabs: &mut SlabLists, made: &Run) {
    let first = made.first;
    slab::header(first).init(id.in_header(), shape.slab_objects, shape.is_plain(), made.reads_zero);
    first.set_entry(shape.granules, id.entry());
    slabs.counts.slabs += 1;
    slabs.counts.slabs_made += 1;
    slabs.list(first, shape);
    chunk::finish_run(made);
    let bytes = shape.granules * GRANULE_BYTES;
    if shape.unreadable {
        // SAFETY: no object of the slab is allocated yet.
        unsafe { map::uncommit(first.address(), bytes) };
    }
    probe::slab_made(id.number().into(), first.address(), bytes);
}
