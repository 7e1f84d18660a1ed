//! The way into quarantine, on which each object is *sealed*: checked, marked as free, and cleared.
//! And the ways back into slabs.

use sheaves_percpu::internal::{Cursor, Sheaf};

use super::queue::of;
use crate::moves::flush;
use crate::parts::pool;
use crate::parts::shape::Shape;
use crate::records::bounds;
use crate::records::object_bytes::{self, Found};
use crate::space::cache_id::CacheId;
use crate::space::checking::Checking;
use crate::space::slab::Slab;
use crate::space::window;

/// Seals an object that is freed, which is the caller's from then on. False, with a report, if it
/// was free already. Aborts the process if no object of the cache starts at the address.
///
/// An object of a size class has to be in a slab of it: so says the owner map, or
/// `flush::check_starts_object`.
pub(crate) fn seal(id: CacheId, shape: &Shape, object: usize) -> bool {
    let quick = if id.is_class() { mark_quick(shape, object) } else { None };
    match quick.or_else(|| mark(id, shape, object)) {
        Some(place) => seal_marked(id, shape, object, place),
        None => return false,
    }
    true
}

/// Marks an object as free that is in a slab of a shape, and returns its place there: 0 for the
/// first one only. `None`, with nothing changed, if it has no state, or not that of one in use.
///
/// The slab's header is not read, which would be one more line from memory, nor is the place
/// divided: the canary proves that an object starts there.
#[inline]
pub(crate) fn mark_quick(shape: &Shape, object: usize) -> Option<usize> {
    // Slabs are aligned to their size, from the start of the window on.
    let place = (object - window::OWNERS.base()) & shape.quick_bytes.wrapping_sub(1);
    let is_inside = place + shape.stride <= shape.quick_bytes && object.is_multiple_of(8);
    (is_inside && object_bytes::mark_free(shape, object) == Found::InUse).then_some(place)
}

/// [`mark_quick`] for any object; the place of one without a canary is 0. `None`, with a report, if
/// it was free already.
#[cold]
fn mark(id: CacheId, shape: &Shape, object: usize) -> Option<usize> {
    let (slab, index) = flush::slab_and_index(id, object);
    let (is_free, is_damaged) = if shape.has_canary() {
        let found = object_bytes::mark_free(shape, object);
        // One that was never allocated, or whose page was discarded, has no canary.
        let is_damaged = found == Found::Damage;
        (found == Found::Free || is_damaged && slab.is_free(index), is_damaged)
    } else {
        (slab.hold(index / 64, 1 << (index % 64)) != 0, false)
    };
    if is_free {
        let (name, size) = (shape.name(), shape.size);
        object_bytes::found(format_args!(
            "double free of {object:#x}, an object of cache {name} (size {size})"
        ));
        return None;
    }
    if is_damaged {
        object_bytes::report_overflow(shape, object);
        object_bytes::mend(shape, object);
    }
    Some(if shape.has_canary() { index } else { 0 })
}

/// The rest of [`seal`], of an object that is marked: checks what is around it, and clears it.
fn seal_marked(id: CacheId, shape: &Shape, object: usize, place: usize) {
    bounds::check(id, shape, object);
    if place != 0 {
        object_bytes::check_neighbour(shape, object);
    }
    object_bytes::clear(shape, object);
}

/// The same for an object of a size class that [`mark_quick`] has marked.
#[inline]
pub(crate) fn seal_quick(id: CacheId, shape: &Shape, object: usize, place: usize) {
    if shape.checking != Checking::Hardened {
        return seal_marked(id, shape, object, place);
    }
    if place != 0 {
        object_bytes::check_neighbour(shape, object);
    }
    object_bytes::clear_quick(shape, object);
}

/// True if an object is in quarantine or free in its slab, as its canary or its slab knows.
pub(crate) fn is_free(shape: &Shape, slab: &Slab, index: usize, object: usize) -> bool {
    let is_marked = match shape.has_canary() {
        true => object_bytes::is_marked_free(shape, object),
        false => slab.is_held(index),
    };
    is_marked || slab.is_free(index)
}

/// Seals what the caller owns in a sheaf, and appends the sheaf to the queue. For what comes from
/// grace periods.
pub(crate) fn seal_sheaf(id: CacheId, cursor: Cursor) {
    let shape = id.shape();
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    let objects = unsafe { cursor.objects() };
    let count = retain(objects, |object| {
        // The first free may be so long ago that the slab is that of another cache.
        flush::check_starts_object(id, object);
        seal(id, shape, object)
    });
    append(id, cursor.down(objects.len() - count));
}

/// Appends a sheaf of sealed objects, which the caller owns, to the queue.
pub(crate) fn append(id: CacheId, cursor: Cursor) {
    if cursor.is_empty() {
        pool::put_empty(cursor.sheaf());
        return;
    }
    let quarantine = of(id);
    let mut fifo = quarantine.fifo.lock();
    quarantine.count(id, cursor.fill());
    fifo.append(cursor);
}

/// Puts a sealed object into quarantine. The caller releases the surplus after it.
pub(crate) fn add(id: CacheId, object: usize) {
    let quarantine = of(id);
    let mut fifo = quarantine.fifo.lock();
    while !fifo.open.cursor().is_sheaf() {
        drop(fifo);
        let Some(sheaf) = pool::take_empty() else {
            // No memory for a sheaf: without quarantine.
            flush::flush(id, &mut [object]);
            return;
        };
        fifo = quarantine.fifo.lock();
        if fifo.open.cursor().is_sheaf() {
            pool::put_empty(sheaf);
        } else {
            let objects_max = id.shape().sheaf_objects.min(Sheaf::OBJECTS_MAX);
            fifo.open.set(pool::format(sheaf, objects_max));
        }
    }
    // SAFETY: the lock's holder owns the open sheaf, which is not full.
    let pushed = unsafe { fifo.open.cursor().push(object) };
    fifo.open.set(pushed);
    quarantine.count(id, 1);
    if pushed.is_full() {
        fifo.append_open();
    }
}

/// Returns objects of any cache to their slabs that were taken and not allocated. What something
/// freed meanwhile is reported, and stays away.
pub(crate) fn return_unused(id: CacheId, objects: &mut [usize]) {
    let shape = id.shape();
    let count = match shape.is_plain() {
        true => objects.len(),
        false => retain(objects, |object| mark(id, shape, object).is_some()),
    };
    flush::flush(id, &mut objects[..count]);
}

/// Moves the objects that are to stay to the front, in their order; returns their number.
fn retain(objects: &mut [usize], mut stays: impl FnMut(usize) -> bool) -> usize {
    let mut count = 0;
    for index in 0..objects.len() {
        if stays(objects[index]) {
            objects[count] = objects[index];
            count += 1;
        }
    }
    count
}
