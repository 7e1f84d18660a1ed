//! The slow paths of hardened caches. They try less than those of other caches: what is freed goes
//! into quarantine, and what is allocated comes from there or from slabs, in random order.
//!
//! Size classes have two sheaves in each slot, which never change places: one of what was freed and
//! is sealed, and one from which `malloc` pops. Named caches have the second one only. Each free
//! takes the slow path, which seals the object.

use core::sync::atomic::Ordering;

use sheaves_percpu::Access;
use sheaves_percpu::internal::slots::attach;
use sheaves_percpu::internal::{Cursor, Word, pop_slow, push, push_slow};
use sheaves_sys::errno;

use crate::checked::quarantine;
use crate::checked::samples::{pop_tagged, sample_if_tagged};
use crate::deferred;
use crate::moves::slot::{self, ATTEMPTS};
use crate::moves::{flush, refill, registry, tags};
use crate::parts::pool;
use crate::parts::shape::Shape;
use crate::records::profile::AllocRequest;
use crate::records::{bounds, object_bytes};
use crate::returning::{surplus, tick};
use crate::space::cache_id::CacheId;
use crate::space::checking::Checking;
use crate::space::granule::Granule;
use crate::space::slab;

/// Allocates an object; 0 when memory is out.
pub(crate) fn alloc(id: CacheId, request: &AllocRequest) -> usize {
    let [_, stock] = id.hardened_words();
    let put_rest = |cursor| {
        if let Err(cursor) = slot::exchange(stock, cursor, |current| !current.is_sheaf()) {
            quarantine::put_back(id, cursor);
        }
    };
    for _ in 0..ATTEMPTS {
        let popped = pop_slow(stock).or_else(|| pop_tagged(id, stock, request, put_rest));
        if let Some(object) = popped {
            return object;
        }
        if !attach() {
            break;
        }
        id.descriptor().depot.note_exchange(id.shape());
        if let Some(ready) = deferred::take_ready(id) {
            quarantine::seal_sheaf(id, ready);
            quarantine::flush_surplus(id);
        }
        let ready = quarantine::take_ready(id).or_else(|| refill::refilled_sheaf(id));
        let Some(cursor) = ready else { break };
        // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
        tags::tag(id.shape(), unsafe { cursor.objects() });
        match slot::exchange(stock, cursor, Cursor::is_empty) {
            // Whether it is empty is certain only now that it is the caller's.
            Ok(before) if before.is_sheaf() => quarantine::put_back(id, before),
            Ok(_vacant) => {}
            Err(cursor) => quarantine::put_back(id, cursor),
        }
    }
    // Straight from the slabs: the thread is without a slot, or without memory for a sheaf.
    let mut one = [quarantine::refill_one(id)];
    if one[0] == 0 {
        return 0;
    }
    tags::tag(id.shape(), &mut one);
    sample_if_tagged(id, one[0], request)
}

/// Frees an object of the size class that the owner map has for it. False, with nothing changed, if
/// it has none, or if that needs [`free`], or is an error. Keeps `errno`.
#[inline]
pub(crate) fn free_quick(entry: usize, object: usize) -> bool {
    let id = CacheId::of_main(Word::at_offset(entry));
    let Some(shape) = id.shape_of_class() else { return false };
    let Some(place) = quarantine::mark_quick(shape, object) else { return false };
    let is_usual = shape.checking == Checking::Hardened
        && object_bytes::is_neighbour_good(shape, object, place)
        && object_bytes::clear_short(shape, object);
    // Either call is the last one: so few registers are saved.
    if is_usual {
        give(id, object);
    } else {
        check_and_give(id, shape, object, place);
    }
    true
}

#[inline(never)]
fn check_and_give(id: CacheId, shape: &Shape, object: usize, place: usize) {
    quarantine::check_neighbour(shape, object, place);
    bounds::check(id, shape, object);
    if !object_bytes::clear_short(shape, object) {
        object_bytes::clear(shape, object);
    }
    give(id, object);
}

/// Puts an object of a size class that is sealed into the current slot, or into quarantine.
#[inline]
fn give(id: CacheId, object: usize) {
    // SAFETY: the caller has an object, so the engine has started.
    let access = unsafe { Access::of_started() };
    // SAFETY: the object is sealed: it is the caller's, and only pushed here.
    if !unsafe { push(access, id.sealed(), object) } {
        give_slow(id, object);
    }
}

/// Frees an object. That of a size class is in a slab of it.
pub(crate) fn free(id: CacheId, object: usize) {
    // Ends its record, if it has one. The object goes into quarantine in any case.
    let _ = tags::freed(object);
    if quarantine::seal(id, id.shape(), object) {
        give_slow(id, object);
    }
}

#[inline(never)]
fn give_slow(id: CacheId, object: usize) {
    // SAFETY: as in `give`. In the portable engine each free comes here.
    if id.is_class() && unsafe { push_slow(id.sealed(), object) } {
        return;
    }
    errno::preserve(|| {
        if !exchange(id, object) {
            quarantine::add(id, object);
        }
        quarantine::flush_surplus(id);
        surplus::after_free();
    });
}

/// Stores a sheaf with a sealed object in the current slot, whose full one goes to the queue. False
/// if nothing was changed.
fn exchange(id: CacheId, object: usize) -> bool {
    if !id.is_class() || id.shape().sheaf_objects == 1 || !attach() {
        return false;
    }
    let Some(sheaf) = pool::take_empty() else { return false };
    let empty = pool::format(sheaf, id.shape().sheaf_objects);
    // SAFETY: the sheaf is empty, and has room; as in `give`.
    let filled = unsafe { empty.push(object) };
    let exchanged = slot::exchange(id.sealed(), filled, Cursor::is_full);
    match exchanged {
        Ok(before) if before.is_sheaf() => {
            id.descriptor().depot.note_exchange(id.shape());
            quarantine::append(id, before);
        }
        Ok(_vacant) => {}
        Err(filled) => pool::put_empty(filled.sheaf()),
    }
    exchanged.is_ok()
}

/// Aborts the process unless the address starts an object that is allocated.
pub fn check_allocated(id: CacheId, object: usize) {
    let (slab, index) = flush::slab_and_index(id, object);
    if quarantine::is_free(id.shape(), slab, index, object) {
        let (name, size) = (id.shape().name(), id.shape().size);
        object_bytes::found(format_args!(
            "use of {object:#x}, an object of cache {name} (size {size}), after it was freed"
        ));
    }
}

/// True when an address is in an object of a size class that is in quarantine or free.
#[must_use]
pub fn is_freed(address: usize) -> bool {
    let Some(granule) = Granule::of(address) else { return false };
    let Some(id) = slab::size_class_cache_of(granule) else { return false };
    let (shape, first) = (id.shape(), id.shape().first_granule(granule));
    let (slab, index) = (slab::header(first), (address - first.address()) / shape.stride);
    // Relaxed: a slab that has an allocated object does not change its cache.
    let is_of_cache = slab.cache.load(Ordering::Relaxed) == id.in_header();
    let object = first.address() + index * shape.stride;
    is_of_cache && index < shape.slab_objects && quarantine::is_free(shape, slab, index, object)
}

/// Takes what the slots have, and checks everything in quarantine. When the process ends.
pub fn check_freed() {
    tick::flush_slots();
    registry::all_ids().for_each(|id| _ = quarantine::flush_queue(id));
}
