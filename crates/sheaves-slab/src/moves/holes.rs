//! Discarding holes: the pages that are wholly inside free objects of a slab.

use core::sync::atomic::Ordering;

use crate::space::cache_id::CacheId;
use crate::space::chunk;
use crate::space::granule::Granule;
use crate::space::slab;

/// Discards the holes of a slab if it is of this cache. The cache's lock is held for one system
/// call for each two pages of a slab, at the most.
pub(crate) fn discard(id: CacheId, granule: Granule) {
    let shape = id.shape();
    let _slabs = id.descriptor().slabs.lock();
    // Relaxed: under the cache's lock; a slab of another cache, or of none, has another value.
    let is_ours = slab::header(granule).cache.load(Ordering::Relaxed) == id.in_header();
    if is_ours && shape.may_discard() {
        chunk::note_holes(granule);
        slab::discard_free_objects(granule, shape.stride, shape.slab_objects);
    }
}
