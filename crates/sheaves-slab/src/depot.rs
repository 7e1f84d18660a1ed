//! The depot: each cache's stack of full sheaves, bounded by bytes. Bonwick's magazine layer has
//! the same (Bonwick, Adams, "Magazines and Vmem", 2001).
//!
//! The depot has a few shards, chosen by slot. So a sheaf that a CPU puts there tends to come back
//! to this CPU rather than to another one, in whose caches its objects would be cold. A slot whose
//! shard is empty searches the others.
//!
//! A fixed number of sheaves fails for "allocate 10,000, then free all". So the limit is a number
//! of bytes, and it is raised when that pays: a refill from slabs after a flush to slabs shows that
//! a larger depot would have saved both. Each second without that halves the limit, down to its
//! initial value.

use core::sync::atomic::{AtomicU32, Ordering};

use sheaves_percpu::{Cursor, Sheaf};
use sheaves_sys::clock;

use crate::counts::count;
use crate::descriptor::{CacheId, Shape};
use crate::pool::{self, SHARDS, SheafStack, shard_here};

/// Initial limit of a cache, in bytes of objects.
const BYTES_MIN: usize = 1 << 20;
/// The limit is never raised above this, in bytes of objects.
const BYTES_MAX: usize = 1 << 30;
/// A shard's limit is at least this many sheaves, however large the objects are.
const SHEAVES_MIN: usize = 4;
/// Time between two halvings: 1 << this, in ms.
const DECAY_SHIFT: u32 = 10;
/// After this many trips the size of new sheaves is adjusted.
const TRIPS: u32 = 32;
/// A shorter time for [`TRIPS`] doubles the size (the clock's own step is 1 to 10 ms).
const TRIPS_SHORT_MS: u32 = 8;
/// A longer time for [`TRIPS`] halves the size.
const TRIPS_LONG_MS: u32 = 512;

/// A cache is hot if a use of a sheaf takes less than this per object: then its sheaves grow.
const HOT_OBJECT_NS: u64 = 24;

fn objects_for(shape: &Shape, bytes: usize) -> u32 {
    (bytes / shape.stride).max(SHARDS * SHEAVES_MIN * shape.sheaf_objects) as u32
}

/// Initial limit of a cache, in objects.
pub(crate) fn limit_at_least(shape: &Shape) -> u32 {
    objects_for(shape, BYTES_MIN)
}

/// A shard of a cache's depot, on cache lines of its own.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Shard {
    full: SheafStack,
    /// Objects in the full sheaves; raised before the push and lowered after the pop.
    objects: AtomicU32,
    /// Trips since `trips_since_ms`.
    trips: AtomicU32,
    trips_since_ms: AtomicU32,
}

impl Shard {
    pub(crate) const fn new() -> Shard {
        Shard {
            full: SheafStack::new(),
            objects: AtomicU32::new(0),
            trips: AtomicU32::new(0),
            trips_since_ms: AtomicU32::new(0),
        }
    }

    fn take(&self) -> Option<Sheaf> {
        let sheaf = self.full.pop()?;
        // Relaxed: a count that guides decisions; the sheaf itself came by the stack.
        self.objects.fetch_sub(sheaf.capacity() as u32, Ordering::Relaxed);
        Some(sheaf)
    }
}

/// Takes a full sheaf, from the slot's own shard if possible; returns its cursor.
pub(crate) fn take_full(id: CacheId) -> Option<Cursor> {
    let (shards, here) = (&id.descriptor().shards, shard_here());
    let sheaf = (0..SHARDS).find_map(|step| shards[(here + step) % SHARDS].take())?;
    count!(id, depot_hits);
    Some(sheaf.full())
}

/// Takes over a full sheaf from the caller. Above the limit its objects go back to their slabs.
pub(crate) fn put_full(id: CacheId, cursor: Cursor) {
    debug_assert!(cursor.is_full());
    let descriptor = id.descriptor();
    let shard = &descriptor.shards[shard_here()];
    let sheaf = cursor.sheaf();
    let objects = sheaf.capacity() as u32;
    // Relaxed, all: counts that guide decisions; being off by a few sheaves is harmless.
    let count = shard.objects.fetch_add(objects, Ordering::Relaxed);
    if count < descriptor.full_limit.load(Ordering::Relaxed) / SHARDS as u32 {
        shard.full.push(sheaf);
        return;
    }
    shard.objects.fetch_sub(objects, Ordering::Relaxed);
    descriptor.overflows.fetch_add(objects, Ordering::Relaxed);
    crate::flush::flush_sheaf(id, cursor);
    decay(id);
}

/// Objects in the depot. For statistics.
pub(crate) fn objects(id: CacheId) -> usize {
    let count = |shard: &Shard| {
        // Relaxed: statistics.
        shard.objects.load(Ordering::Relaxed) as usize
    };
    id.descriptor().shards.iter().map(count).sum()
}

/// Counts a trip of a slot beyond its own two sheaves, and sizes new sheaves by the rate of trips:
/// small sheaves keep the working set small, large ones make trips rare.
pub(crate) fn count_trip(id: CacheId) {
    let shard = &id.descriptor().shards[shard_here()];
    // Relaxed, both, and without a locked instruction: a lost trip does not matter.
    let trips = shard.trips.load(Ordering::Relaxed) + 1;
    shard.trips.store(trips % TRIPS, Ordering::Relaxed);
    if trips == TRIPS {
        size_sheaves(id, shard);
    }
}

/// Doubles the size of new sheaves if the last [`TRIPS`] took a short time, halves it if they took
/// a long time.
#[cold]
fn size_sheaves(id: CacheId, shard: &Shard) {
    let descriptor = id.descriptor();
    let now = clock::coarse_ms() as u32;
    // Relaxed, all: any value between the two bounds is right.
    let took_ms = now.wrapping_sub(shard.trips_since_ms.swap(now, Ordering::Relaxed));
    let objects = descriptor.sheaf_objects.load(Ordering::Relaxed);
    let wanted = match took_ms {
        0..=TRIPS_SHORT_MS => objects * 2 + 1,
        TRIPS_LONG_MS.. => objects / 2,
        _ => return,
    };
    let shape = id.shape();
    let bounds = (shape.sheaf_objects_min() as u32, shape.sheaf_objects as u32);
    descriptor.sheaf_objects.store(wanted.clamp(bounds.0, bounds.1), Ordering::Relaxed);
}

/// Checks the size of an empty sheaf, which the caller owns, between two uses: sheaves that a slot
/// swaps often grow. Returns the cursor.
pub(crate) fn refit(id: CacheId, empty: Cursor) -> Cursor {
    let (descriptor, shape) = (id.descriptor(), id.shape());
    debug_assert!(empty.is_empty());
    let sheaf = empty.sheaf();
    let capacity = sheaf.capacity();
    if capacity >= shape.sheaf_objects {
        return empty;
    }
    let hot_ns = (pool::USES * capacity) as u64 * HOT_OBJECT_NS;
    if pool::count_use(sheaf).is_some_and(|took_ns| took_ns < hot_ns) {
        let larger = (2 * capacity + 1).min(shape.sheaf_objects);
        // Relaxed: as in `size_sheaves`.
        descriptor.sheaf_objects.fetch_max(larger as u32, Ordering::Relaxed);
    }
    // Relaxed: as in `take_empty`.
    let wanted = descriptor.sheaf_objects.load(Ordering::Relaxed) as usize;
    if wanted == capacity { empty } else { pool::format(sheaf, wanted) }
}

/// Called at every refill from slabs: raises the limit if the depot has overflowed before.
pub(crate) fn missed(id: CacheId) {
    let descriptor = id.descriptor();
    // Relaxed, all: as in `put_full`.
    let overflows = descriptor.overflows.swap(0, Ordering::Relaxed);
    if overflows == 0 {
        return;
    }
    let most = objects_for(id.shape(), BYTES_MAX);
    let limit = descriptor.full_limit.load(Ordering::Relaxed);
    let raised = limit.saturating_add(overflows.max(limit)).min(most);
    descriptor.full_limit.store(raised, Ordering::Relaxed);
    descriptor.decayed.store(decay_clock(), Ordering::Relaxed);
}

fn decay_clock() -> u32 {
    (clock::coarse_ms() >> DECAY_SHIFT) as u32
}

/// Halves the limit if it was neither raised nor halved in this second.
fn decay(id: CacheId) {
    let descriptor = id.descriptor();
    let now = decay_clock();
    // Relaxed, all: as in `put_full`.
    if descriptor.decayed.swap(now, Ordering::Relaxed) == now {
        return;
    }
    let least = limit_at_least(id.shape());
    let limit = descriptor.full_limit.load(Ordering::Relaxed);
    descriptor.full_limit.store((limit / 2).max(least), Ordering::Relaxed);
}

/// Flushes the whole depot to slabs and resets the limit.
pub(crate) fn empty(id: CacheId) {
    // Relaxed: as in `put_full`.
    id.descriptor().full_limit.store(limit_at_least(id.shape()), Ordering::Relaxed);
    while let Some(cursor) = take_full(id) {
        crate::flush::flush_sheaf(id, cursor);
    }
}

/// An empty sheaf for this cache; its cursor, on the sentinel. `None` when memory is out.
pub(crate) fn take_empty(id: CacheId) -> Option<Cursor> {
    let sheaf = pool::take_empty()?;
    // Relaxed: any value between the two bounds is right.
    Some(pool::format(sheaf, id.descriptor().sheaf_objects.load(Ordering::Relaxed) as usize))
}
