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
use crate::space::granule::Granule;
use crate::space::slab::Slab;

/// Seals an object that is freed, which is the caller's from then on. False, with a report, if it
/// was free already. Aborts the process if no object of the cache starts at the address.
///
/// An object of a size class has to be in a slab of it: so says the owner map, or
/// `flush::check_starts_object`.
#[inline]
pub(crate) fn seal(id: CacheId, shape: &Shape, object: usize) -> bool {
    if !shape.has_state() {
        return seal_held(id, shape, object);
    }
    let offset = offset_in_slab(id, shape, object);
    let found = object_bytes::mark_free(shape, object);
    match found {
        Found::InUse => bounds::check(id, shape, object),
        _ if is_first_free(id, shape, object, found) => {}
        _ => return false,
    }
    if offset != 0 {
        object_bytes::check_neighbour(shape, object);
    }
    object_bytes::clear(shape, object);
    true
}

/// The offset of an object in its slab. The slab's header is not read, which would be one more line
/// from memory: of a size class the canary proves the rest.
#[inline]
fn offset_in_slab(id: CacheId, shape: &Shape, object: usize) -> usize {
    if id.is_class()
        && !shape.is_alone()
        && let Some(granule) = Granule::of(object)
    {
        let offset = object - shape.first_granule(granule).address();
        if shape.index_of(offset).is_some() {
            return offset;
        }
    }
    let (_slab, index) = flush::slab_and_index(id, object);
    index * shape.stride
}

/// Reports what [`object_bytes::mark_free`] has found. True if it is the first free of the object
/// nevertheless.
#[cold]
fn is_first_free(id: CacheId, shape: &Shape, object: usize, found: Found) -> bool {
    let (slab, index) = flush::slab_and_index(id, object);
    // One that was never allocated, or whose page was discarded, has no canary.
    if found == Found::Free || slab.is_free(index) {
        report_double_free(shape, object);
        return false;
    }
    object_bytes::report_overflow(shape, object);
    object_bytes::mend(shape, object);
    true
}

/// [`seal`] for an object whose state is in its slab's header.
fn seal_held(id: CacheId, shape: &Shape, object: usize) -> bool {
    let (slab, index) = flush::slab_and_index(id, object);
    if slab.hold(index / 64, 1 << (index % 64)) != 0 {
        report_double_free(shape, object);
        return false;
    }
    object_bytes::check_canary(shape, object);
    bounds::check(id, shape, object);
    object_bytes::clear(shape, object);
    true
}

/// True if an object is in quarantine or free in its slab, as its canary or its slab knows.
pub(crate) fn is_free(shape: &Shape, slab: &Slab, index: usize, object: usize) -> bool {
    slab.is_held(index) || (shape.has_state() && object_bytes::is_marked_free(shape, object))
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
            release(id, &mut [object]);
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

/// Returns objects of any cache to their slabs that were taken and not allocated.
pub(crate) fn return_unused(id: CacheId, objects: &mut [usize]) {
    let shape = id.shape();
    let count = match shape.is_plain() {
        true => objects.len(),
        false if shape.has_state() => {
            let count = retain(objects, |object| mark_unused(shape, object));
            hold(id, shape, &mut objects[..count])
        }
        false => hold(id, shape, objects),
    };
    flush::flush(id, &mut objects[..count]);
}

/// Marks an object as free that was not allocated. False, with a report, if something freed it.
fn mark_unused(shape: &Shape, object: usize) -> bool {
    match object_bytes::mark_free(shape, object) {
        Found::InUse => {}
        Found::Free => {
            report_double_free(shape, object);
            return false;
        }
        Found::Damage => {
            object_bytes::report_overflow(shape, object);
            object_bytes::mend(shape, object);
        }
    }
    true
}

/// Returns the objects of a sheaf that the caller owns to their slabs.
pub(super) fn release_sheaf(id: CacheId, cursor: Cursor) {
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    release(id, unsafe { cursor.objects() });
    pool::put_empty(cursor.sheaf());
}

/// Returns sealed objects to their slabs. What the kernel does not make accessible again is lost.
fn release(id: CacheId, objects: &mut [usize]) {
    let shape = id.shape();
    let count = match shape.has_state() {
        true => hold(id, shape, objects),
        false => retain(objects, |object| object_bytes::make_accessible(shape, object)),
    };
    flush::flush(id, &mut objects[..count]);
}

/// Holds objects that return to their slabs: sorted at the front; returns their number. Those that
/// are held already are reported. Aborts the process if no object of the cache starts at an
/// address.
fn hold(id: CacheId, shape: &Shape, objects: &mut [usize]) -> usize {
    objects.sort_unstable();
    let (mut next, mut count) = (0, 0);
    while next < objects.len() {
        let run = Run::first_of(id, shape, &objects[next..]);
        let before = run.slab.hold(run.word, run.bits);
        for place in next..next + run.count {
            let object = objects[place];
            let Some(index) = shape.index_of(object - run.start) else { continue };
            if before >> (index % 64) & 1 == 0 {
                objects[count] = object;
                count += 1;
            } else {
                report_double_free(shape, object);
            }
        }
        next += run.count;
    }
    count
}

/// Objects that have their bits in one word of a slab.
pub(super) struct Run {
    pub(super) slab: &'static Slab,
    /// The address of the slab's first object.
    start: usize,
    pub(super) word: usize,
    pub(super) bits: u64,
    pub(super) count: usize,
}

impl Run {
    /// The run that objects begin with: as many as are different and in the same word. Aborts the
    /// process if no object of the cache starts at the first address.
    pub(super) fn first_of(id: CacheId, shape: &Shape, objects: &[usize]) -> Run {
        let (slab, first) = flush::slab_and_index(id, objects[0]);
        let (start, word) = (objects[0] - first * shape.stride, first / 64);
        let mut run = Run { slab, start, word, bits: 0, count: 0 };
        for object in objects {
            match shape.index_of(object.wrapping_sub(start)) {
                Some(index) if index / 64 == word && run.bits >> (index % 64) & 1 == 0 => {
                    run.bits |= 1 << (index % 64);
                    run.count += 1;
                }
                _ => break,
            }
        }
        run
    }
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

#[cold]
fn report_double_free(shape: &Shape, object: usize) {
    let (name, size) = (shape.name(), shape.size);
    object_bytes::found(format_args!(
        "double free of {object:#x}, an object of cache {name} (size {size})"
    ));
}
