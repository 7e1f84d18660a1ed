//! Statistics of a cache.
//!
//! The fast paths count nothing. The number of allocated objects is computed: the objects of all
//! slabs, less those in slabs, in the depot, in the slots' sheaves, and deferred. While other
//! threads work, each figure is right for some moment, but not all for the same moment. In the
//! child of a fork they are off by what other threads were moving.

use crate::checked::quarantine;
use crate::deferred;
use crate::moves::slot;
use crate::space::cache_id::CacheId;
use crate::space::window::GRANULE_BYTES;

pub use crate::parts::shape::Name;

/// Contents and history of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CacheStats {
    /// Size of an object in bytes, without padding.
    pub object_bytes: usize,
    /// Bytes from one object to the next.
    pub stride_bytes: usize,
    /// Slabs that exist.
    pub slabs: usize,
    /// Bytes of those slabs.
    pub slab_bytes: usize,
    /// Objects that are allocated.
    pub objects_out: usize,
    /// Objects in the sheaves of the slots.
    pub objects_in_slots: usize,
    /// Objects that are deferred until a grace period has passed.
    pub objects_deferred: usize,
    /// Objects in the depot; of a hardened cache, in quarantine.
    pub objects_in_depot: usize,
    /// Objects free in slabs.
    pub objects_in_slabs: usize,
    /// Number of refills so far; each takes objects from slabs.
    pub refills: u64,
    /// Number of flushes so far; each returns objects to slabs.
    pub flushes: u64,
    /// Full sheaves that came from the depot.
    pub depot_hits: u64,
    /// Slabs created since the cache was created.
    pub slabs_made: u64,
    /// Slabs released since the cache was created.
    pub slabs_released: u64,
}

/// Statistics of one cache.
#[must_use]
pub fn stats(id: CacheId) -> CacheStats {
    let (descriptor, shape) = (id.descriptor(), id.shape());
    let (objects_in_depot, depot_hits, flushes) = descriptor.depot.statistics();
    let objects_in_depot = objects_in_depot + quarantine::of(id).objects();
    let objects_in_slots = slot::objects_in(&id.words());
    let counts = descriptor.slabs.lock().counts;
    let slabs = counts.slabs as usize;
    let objects_in_slabs = (slabs * shape.slab_objects).saturating_sub(descriptor.depot.outside());
    let objects_deferred = deferred::objects(id);
    let inside = objects_in_slabs + objects_in_depot + objects_in_slots + objects_deferred;
    CacheStats {
        object_bytes: shape.size,
        stride_bytes: shape.stride,
        slabs,
        slab_bytes: slabs * shape.granules * GRANULE_BYTES,
        objects_out: (slabs * shape.slab_objects).saturating_sub(inside),
        objects_in_slots,
        objects_deferred,
        objects_in_depot,
        objects_in_slabs,
        refills: counts.refills,
        flushes,
        depot_hits,
        slabs_made: counts.slabs_made,
        slabs_released: counts.slabs_released,
    }
}

/// Names and statistics of the caches that exist, each read when the iterator reaches it. Each step
/// may sleep on locks for microseconds.
pub fn all() -> impl Iterator<Item = (Name, CacheStats)> {
    crate::moves::registry::map_existing(|id| (id.shape().name, stats(id)))
}
