//! Statistics of a cache.
//!
//! The fast paths count nothing. The number of allocated objects is computed: the objects of all
//! slabs, less those free in slabs, in depots and in the slots' sheaves. While other threads work,
//! each figure is right for some moment, but not all for the same moment.

use crate::cache_id::CacheId;
use crate::events::counted;
use crate::shape::NAME_BYTES;
use crate::window::GRANULE_BYTES;
use crate::{deferred, slot};

/// Contents and history of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    /// Objects in the depot.
    pub objects_in_depot: usize,
    /// Objects free in slabs.
    pub objects_in_slabs: usize,
    /// Number of refills: objects taken from slabs.
    pub refills: u64,
    /// Number of flushes: objects returned to slabs.
    pub flushes: u64,
    /// Full sheaves that came from the depot.
    pub depot_hits: u64,
    /// Slabs created since the cache was.
    pub slabs_made: u64,
    /// Slabs released since the cache was created.
    pub slabs_released: u64,
}

/// Statistics of one cache.
#[must_use]
pub fn stats(id: CacheId) -> CacheStats {
    let (descriptor, shape) = (id.descriptor(), id.shape());
    let objects_in_depot = descriptor.depot.objects();
    let objects_in_slots = slot::objects_in(&[id.allocs(), id.frees()]);
    let (slabs, objects_in_slabs) = {
        let slabs = descriptor.slabs.lock();
        (slabs.count as usize, slabs.free_objects())
    };
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
        refills: counted!(id, refills),
        flushes: counted!(id, flushes),
        depot_hits: counted!(id, depot_hits),
        slabs_made: counted!(id, slabs_made),
        slabs_released: counted!(id, slabs_released),
    }
}

/// Name of a cache.
#[must_use]
pub fn name(id: CacheId) -> &'static str {
    id.shape().name()
}

/// A cache's name, copied.
#[derive(Debug, Clone, Copy)]
pub struct Name {
    bytes: [u8; NAME_BYTES],
    count: usize,
}

impl Name {
    fn of(id: CacheId) -> Name {
        let name = name(id).as_bytes();
        let mut bytes = [0; NAME_BYTES];
        bytes[..name.len()].copy_from_slice(name);
        Name { bytes, count: name.len() }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.count]).unwrap_or("")
    }
}

/// Names and statistics of the caches that exist, each read when the iterator reaches it. Each step
/// may sleep on locks for microseconds.
pub fn all() -> impl Iterator<Item = (Name, CacheStats)> {
    crate::registry::map_existing(|id| (Name::of(id), stats(id)))
}
