//! Discarding holes: the pages that are wholly inside free objects of a slab.

use core::sync::atomic::Ordering;

use crate::parts::shape::Shape;
use crate::space::cache_id::CacheId;
use crate::space::chunk;
use crate::space::granule::Granule;
use crate::space::slab;

/// Discards the holes of a slab if it is of this cache. The cache's lock is held for one system
/// call for each two pages of a slab, at the most.
pub(crate) fn discard(id: CacheId, granule: Granule) {
    with_slab(id, granule, |shape| {
        slab::discard_free_objects(granule, shape.stride, shape.slab_objects)
    });
}

/// The same for the pages of objects that have returned to the slab, which are sorted.
#[cold]
pub(crate) fn discard_of(id: CacheId, granule: Granule, freed: &[usize]) {
    with_slab(id, granule, |shape| {
        slab::discard_pages_of(granule, shape.stride, shape.slab_objects, freed)
    });
}

fn with_slab(id: CacheId, granule: Granule, discard: impl FnOnce(&Shape) -> bool) {
    let shape = id.shape();
    let _slabs = id.descriptor().slabs.lock();
    // Relaxed: under the cache's lock; a slab of another cache, or of none, has another value.
    let is_ours = slab::header(granule).cache.load(Ordering::Relaxed) == id.in_header();
    if is_ours && shape.may_discard() && discard(shape) {
        chunk::note_holes(granule);
    }
}
