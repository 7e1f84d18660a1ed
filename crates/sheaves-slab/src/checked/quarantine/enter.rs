//! The way into quarantine: objects are checked, held and cleared, and their sheaf is queued.

use sheaves_percpu::internal::{Cursor, Sheaf};

use super::queue::of;
use crate::moves::flush;
use crate::parts::pool;
use crate::parts::shape::Shape;
use crate::records::object_bytes;
use crate::space::cache_id::CacheId;
use crate::space::slab::Slab;

/// Puts a sheaf of freed objects that the caller owns into quarantine. If it was taken out of a
/// slot, that was in the read section that the caller is in.
pub(crate) fn admit_sheaf(id: CacheId, cursor: Cursor) {
    let shape = id.shape();
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    let objects = unsafe { cursor.objects() };
    let count = admit(id, shape, objects);
    let cursor = cursor.down(objects.len() - count);
    if count == 0 {
        pool::put_empty(cursor.sheaf());
        return;
    }
    let quarantine = of(id);
    let mut fifo = quarantine.fifo.lock();
    quarantine.count(count);
    fifo.append(cursor);
}

/// Puts one object into quarantine, checked at once, in the caller's read section. The caller
/// releases the surplus after it.
pub(crate) fn add(id: CacheId, object: usize) {
    let shape = id.shape();
    if admit(id, shape, &mut [object]) == 0 {
        return;
    }
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
            fifo.open.set(pool::format(sheaf, shape.sheaf_objects.min(Sheaf::OBJECTS_MAX)));
        }
    }
    // SAFETY: the lock's holder owns the open sheaf, which is not full.
    let pushed = unsafe { fifo.open.cursor().push(object) };
    fifo.open.set(pushed);
    quarantine.count(1);
    if pushed.is_full() {
        fifo.append_open();
    }
}

/// Checks objects that are freed, holds and clears them: sorted at the front; returns their number.
/// Those that are held already are reported.
fn admit(id: CacheId, shape: &Shape, objects: &mut [usize]) -> usize {
    hold(id, shape, objects, |object, index| {
        object_bytes::check_canaries(shape, object, index > 0);
        object_bytes::clear(shape, object);
    })
}

/// Holds objects, and calls `visit` with each and its index: sorted at the front; returns their
/// number. Those that are held already are reported. Aborts the process if no object of the cache
/// starts at an address.
pub(super) fn hold(
    id: CacheId,
    shape: &Shape,
    objects: &mut [usize],
    mut visit: impl FnMut(usize, usize),
) -> usize {
    objects.sort_unstable();
    let (mut next, mut count) = (0, 0);
    while next < objects.len() {
        let run = Run::first_of(id, shape, &objects[next..]);
        let before = run.slab.hold(run.word, run.bits);
        for place in next..next + run.count {
            let object = objects[place];
            let Some(index) = shape.index_of(object - run.start) else { continue };
            if before >> (index % 64) & 1 == 0 {
                visit(object, index);
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

#[cold]
fn report_double_free(shape: &Shape, object: usize) {
    let (name, size) = (shape.name(), shape.size);
    object_bytes::found(format_args!(
        "double free of {object:#x}, an object of cache {name} (size {size})"
    ));
}

/// Returns the objects of a sheaf that the caller owns to their slabs.
pub(super) fn release_sheaf(id: CacheId, cursor: Cursor) {
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    release(id, unsafe { cursor.objects() });
    pool::put_empty(cursor.sheaf());
}

/// Returns objects to their slabs. What the kernel does not make accessible again is lost.
fn release(id: CacheId, objects: &mut [usize]) {
    let mut count = 0;
    for index in 0..objects.len() {
        if object_bytes::make_accessible(id.shape(), objects[index]) {
            objects[count] = objects[index];
            count += 1;
        }
    }
    flush::flush(id, &mut objects[..count]);
}
