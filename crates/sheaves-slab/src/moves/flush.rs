//! Flush: from sheaves back into slabs, by runs of objects of one slab.
//!
//! The objects are sorted by address, so that each slab's are together. Then each word of a slab's
//! bitmap takes one `fetch_or`, and each slab one `fetch_add`. The cache's lock is needed only when
//! a slab gets its first free object or becomes empty. No object is touched. Every object is
//! checked here: it must be in a slab of this cache, at the start of an object, and not be free
//! already.

use core::sync::atomic::Ordering;

use sheaves_percpu::internal::Cursor;
use sheaves_sys::{probe, tsan};

use crate::moves::holes;
use crate::moves::release::{self, Left};
use crate::moves::slot::take_untagged;
use crate::parts::shape::Shape;
use crate::parts::{pool, slab_lists};
use crate::protocol::counting;
use crate::space::cache_id::CacheId;
use crate::space::granule::Granule;
use crate::space::slab::{self, Slab};
use crate::space::window::GRANULE_BYTES;
use crate::space::work::{self, Piece};

/// For the report of an address that is inside an object.
const INSIDE: &str = "the start of an object of";

/// Puts a sheaf that the caller owns into the depot if it is full and the depot is below its limit.
/// Otherwise flushes its objects.
pub(crate) fn put_away(id: CacheId, cursor: Cursor) {
    if !cursor.is_full() || !id.descriptor().depot.put_full(id.shape(), cursor) {
        flush_sheaf(id, cursor);
    }
}

/// Flushes the objects of a sheaf that the caller owns, if any, and puts the sheaf into the pool.
/// Returns the number of objects.
pub(crate) fn flush_sheaf(id: CacheId, cursor: Cursor) -> usize {
    let count = cursor.fill();
    flush_objects(id, cursor);
    pool::put_empty(cursor.sheaf());
    count
}

/// Flushes the current slot's sheaves of a plain cache.
pub(crate) fn flush_here(id: CacheId) {
    for word in [id.main(), id.spare()] {
        if let Some(cursor) = take_untagged(id, word, |_| true) {
            flush_sheaf(id, cursor);
        }
    }
}

/// Flushes sheaves of the depot, `most` at the most; returns the number of their objects.
pub(crate) fn flush_depot(id: CacheId, most: usize) -> usize {
    let sheaves = core::iter::from_fn(|| id.take_full()).take(most);
    sheaves.map(|cursor| flush_sheaf(id, cursor)).sum()
}

/// Flushes the objects of a sheaf that the caller owns and keeps.
pub(crate) fn flush_objects(id: CacheId, cursor: Cursor) {
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    let objects = unsafe { cursor.objects() };
    flush(id, objects);
}

/// Flushes objects that the caller owns; sorts the slice.
pub(crate) fn flush(id: CacheId, objects: &mut [usize]) {
    if objects.is_empty() {
        return;
    }
    tsan::unseen(|| objects.sort_unstable());
    let shape = id.shape();
    prefetch(shape, objects);
    work::note(objects.len() * work::OF_OBJECT);
    let is_low = id.descriptor().depot.count_flush(shape, objects.len());
    let discarding = is_low.then(Piece::begin);
    let mut rest = &*objects;
    while let Some(first) = rest.first() {
        let granule = slab_of(id, shape, *first);
        let end = granule.address() + shape.granules * GRANULE_BYTES;
        let count = rest.partition_point(|object| *object < end);
        let (run, others) = rest.split_at(count);
        flush_run(id, shape, granule, run, discarding);
        rest = others;
    }
    probe::flush(id.number().into(), objects.len(), shape.size);
}

/// Begins the cache misses of a flush all at once: in a large heap, two for each object.
fn prefetch(shape: &Shape, objects: &[usize]) {
    for object in objects {
        let Some(granule) = Granule::of(*object) else { continue };
        let first = shape.first_granule(granule);
        slab::prefetch(first, shape.index_of(*object - first.address()).unwrap_or(0));
    }
}

/// The first granule of an object's slab, after checking that the slab is of this cache.
pub(crate) fn slab_of(id: CacheId, shape: &Shape, object: usize) -> Granule {
    let first = Granule::of(object).map(|granule| shape.first_granule(granule));
    match first {
        // Relaxed: the object's owner sees the header that the slab got when it was created.
        Some(first) if slab::header(first).cache.load(Ordering::Relaxed) == id.in_header() => first,
        Some(first) if shape.is_alone() && first.entry() == id.entry() => {
            die_of_wrong_free(id, object, INSIDE)
        }
        _ => die_of_wrong_free(id, object, "of"),
    }
}

/// Aborts the process when no object of the cache starts at an address.
pub(crate) fn check_starts_object(id: CacheId, object: usize) {
    slab_and_index(id, object);
}

/// Slab and index of an object; aborts the process when no object of the cache starts there.
pub(crate) fn slab_and_index(id: CacheId, object: usize) -> (&'static Slab, usize) {
    let shape = id.shape();
    let granule = slab_of(id, shape, object);
    match shape.index_of(object - granule.address()) {
        Some(index) => (slab::header(granule), index),
        None => die_of_wrong_free(id, object, INSIDE),
    }
}

/// Flushes objects of one slab, and discards their pages as long as the piece is not over. The rest
/// is for the next pass or tick.
fn flush_run(
    id: CacheId,
    shape: &Shape,
    granule: Granule,
    run: &[usize],
    discarding: Option<Piece>,
) {
    let slab = slab::header(granule);
    let start = granule.address();
    let (mut word, mut bits) = (0, 0_u64);
    for object in run {
        let Some(index) = shape.index_of(object - start) else {
            die_of_wrong_free(id, *object, INSIDE)
        };
        let bit = 1 << (index % 64);
        if index / 64 != word {
            // Nothing yet before the first object. A put of no bits is a locked instruction, too.
            if bits != 0 {
                put(id, slab, word, bits, start);
            }
            (word, bits) = (index / 64, 0);
        }
        if bits & bit != 0 {
            die_of_double_free(id, *object);
        }
        bits |= bit;
    }
    put(id, slab, word, bits, start);
    let before = counting::count_put(&slab.free, run.len() as u32) as usize;
    if discarding.is_some_and(|piece| !piece.is_over()) {
        holes::discard_of(id, granule, run);
    }
    if counting::must_check_list(before, run.len(), shape.slab_objects) {
        relist(id, shape, granule);
    }
}

fn put(id: CacheId, slab: &Slab, word: usize, bits: u64, start: usize) {
    if !id.shape().is_plain() {
        slab.hold(word, bits);
    }
    if !counting::put_bits(&slab.bits[word], bits) {
        die_of_double_free(id, start + word * 64 * id.shape().stride);
    }
}

/// Moves a slab that had no free object, or has become empty; releases surplus empty slabs.
#[cold]
fn relist(id: CacheId, shape: &Shape, granule: Granule) {
    let mut slabs = id.descriptor().slabs.lock();
    let slab = slab::header(granule);
    // Relaxed: changes under the cache's lock; a slab of another cache, or of none, has another
    // value.
    if slab.cache.load(Ordering::Relaxed) != id.in_header() {
        return;
    }
    // Acquire pairs with the Release in `count_put`.
    let free = slab.free.load(Ordering::Acquire) as usize;
    if !counting::must_move(!slab_lists::is_listed_as_full(slab), free, shape.slab_objects) {
        return;
    }
    slabs.move_slab(granule, shape);
    let kept = id.descriptor().depot.empty_slabs_kept();
    // What is left if there are many, later calls release, or a tick.
    let left = release::release_some(id, &mut slabs, kept);
    drop(slabs);
    if left == Left::Readers {
        release::arm_reclaimer();
    }
}

#[cold]
fn die_of_wrong_free(id: CacheId, object: usize, what: &str) -> ! {
    let name = id.shape().name();
    sheaves_sys::report::die(format_args!("free of {object:#x}, which is not {what} cache {name}"))
}

#[cold]
pub(crate) fn die_of_double_free(id: CacheId, object: usize) -> ! {
    let name = id.shape().name();
    sheaves_sys::report::die(format_args!("double free in cache {name} at or near {object:#x}"))
}
