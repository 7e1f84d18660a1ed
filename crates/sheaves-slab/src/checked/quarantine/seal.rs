//! The way into quarantine, on which each object is *sealed*: checked, marked as free, and cleared.
//! And the ways back into slabs.

use sheaves_percpu::internal::{Cursor, Sheaf};

use super::queue::of;
use crate::moves::{flush, slot};
use crate::parts::pool;
use crate::parts::shape::Shape;
use crate::records::bounds;
use crate::records::object_bytes;
use crate::space::cache_id::CacheId;
use crate::space::slab::Slab;

/// Seals an object that is freed, which is the caller's from then on. False, with a report, if it
/// was free already. Aborts the process if no object of the cache starts at the address.
pub(crate) fn seal(id: CacheId, shape: &Shape, object: usize) -> bool {
    let is_marked = mark(id, shape, object);
    if is_marked {
        bounds::check(id, shape, object);
        object_bytes::clear(shape, object);
    }
    is_marked
}

/// The first half of [`seal`], which suffices for an object that was taken and not allocated.
fn mark(id: CacheId, shape: &Shape, object: usize) -> bool {
    let (slab, index) = flush::slab_and_index(id, object);
    let is_first = if !shape.has_canary() {
        slab.hold(index / 64, 1 << (index % 64)) == 0
    } else if object_bytes::mark_free(shape, object) {
        true
    // Without a canary if it was never allocated, or its page was discarded.
    } else if is_free(shape, slab, index, object) {
        false
    } else {
        object_bytes::mend(shape, object);
        true
    };
    if !is_first {
        let (name, size) = (shape.name(), shape.size);
        object_bytes::found(format_args!(
            "double free of {object:#x}, an object of cache {name} (size {size})"
        ));
    } else if shape.has_canary() {
        check_neighbour(shape, object, index);
    }
    is_first
}

/// Reports what was written past the end of the object before one that is freed, if that has a
/// place above 0 in its slab.
pub(crate) fn check_neighbour(shape: &Shape, object: usize, place: usize) {
    if !object_bytes::is_neighbour_good(shape, object, place) {
        let what = ": something was written before its start, or past the end of";
        object_bytes::report(shape, object, format_args!("{what} {:#x}", object - shape.stride));
    }
}

/// Marks an object of a size class as free. Its place in its slab, in bytes; `None`, with nothing
/// changed, if that is for [`seal`], perhaps as an error.
///
/// The slab's header is not read, which would be one more line from memory, nor is the place
/// divided: the canary proves that an object starts there.
#[inline]
pub(crate) fn mark_quick(shape: &Shape, object: usize) -> Option<usize> {
    // Slabs are aligned to their size.
    let place = object & shape.quick_bytes.wrapping_sub(1);
    let is_marked = place + shape.stride <= shape.quick_bytes
        && object.is_multiple_of(8)
        && object_bytes::mark_free(shape, object);
    is_marked.then_some(place)
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
    let count = slot::to_front(objects, |object| seal(id, shape, object));
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
    let mut open = fifo.open.cursor();
    if !open.is_sheaf() {
        let Some(sheaf) = pool::take_empty() else {
            // No memory for a sheaf: without quarantine.
            drop(fifo);
            return flush::flush(id, &mut [object]);
        };
        open = pool::format(sheaf, id.shape().sheaf_objects.min(Sheaf::OBJECTS_MAX));
    }
    // SAFETY: the lock's holder owns the open sheaf, which is not full.
    let pushed = unsafe { open.push(object) };
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
    let count = slot::to_front(objects, |object| shape.is_plain() || mark(id, shape, object));
    flush::flush(id, &mut objects[..count]);
}
