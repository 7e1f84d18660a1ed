//! The depot: a cache's stack of full sheaves, bounded by bytes. Bonwick's magazine layer has the
//! same (Bonwick, Adams, "Magazines and Vmem", 2001).
//!
//! The depot has a few shards, chosen by slot. So a sheaf that a CPU puts there tends to come back
//! to this CPU rather than to another one, in whose caches its objects would be cold. A slot whose
//! shard is empty searches the others.
//!
//! The limit is a number of bytes. A refill from slabs soon after a flush to slabs shows that a
//! larger depot would have saved both, and raises the limit. A flush halves the limit, down to its
//! initial value, if it has not changed in this second.

use sheaves_percpu::internal::{Cursor, Sheaf};
use sheaves_sys::clock;

use crate::parts::pool::{SHARDS, SheafStack, shard_here};
use crate::parts::shape::Shape;
use crate::space::hint::Hint;
use crate::space::{chunk, limit};

/// Initial limit of a cache, in bytes of objects.
const BYTES_MIN: usize = 1 << 20;
/// The limit is never raised above this, in bytes of objects.
const BYTES_MAX: usize = 1 << 30;
/// A shard's limit is at least this many sheaves, unless objects are alone in their slabs.
const SHEAVES_MIN: usize = 4;
/// A shard with as many bytes of objects is work for a keeper.
const UNUSED_BYTES: usize = 64 << 10;
/// Time between two halvings: 1 << this, in ms.
const DECAY_SHIFT: u32 = 10;
/// A refill this long after an overflow raises no limit: for such a time other caches can use the
/// memory.
const SOON_MS: usize = 256;

/// The depot of a cache.
#[derive(Debug)]
pub(crate) struct Depot {
    /// The most objects in the depot; above it, sheaves are flushed to slabs.
    limit: Hint,
    /// Objects of sheaves that were flushed since the limit was last raised.
    overflows: Hint,
    /// When the last of them was flushed.
    overflowed_ms: Hint,
    /// Capacity of new sheaves in objects; 0 where slots get none.
    pub(super) sheaf_objects: Hint,
    /// Objects that are not in slabs: in use, in sheaves, or deferred.
    pub(super) outside: Hint,
    /// When the limit was last raised or lowered: the ms, shifted by [`DECAY_SHIFT`].
    decayed: Hint,
    /// Counts refills and exchanges, as the keeper saw it at the last tick.
    pub(super) uses_seen: Hint,
    pub(super) shards: [Shard; SHARDS],
}

/// A shard of a cache's depot, on cache lines of its own.
#[repr(align(128))]
#[derive(Debug)]
pub(super) struct Shard {
    full: SheafStack,
    /// Objects in the full sheaves; raised before the push and lowered after the pop.
    objects: Hint,
    /// The fewest of them since the last tick.
    objects_min: Hint,
    /// Exchanges of main sheaves since `exchanges_since_ms`.
    pub(super) exchanges: Hint,
    pub(super) exchanges_since_ms: Hint,
    /// Full sheaves taken (about), and flushes to slabs, so far. For statistics.
    hits: Hint,
    pub(super) flushes: Hint,
}

impl Shard {
    const fn new() -> Shard {
        let [objects, objects_min, exchanges, exchanges_since_ms, hits, flushes] =
            [const { Hint::new(0) }; 6];
        let full = SheafStack::new();
        Shard { full, objects, objects_min, exchanges, exchanges_since_ms, hits, flushes }
    }

    fn take(&self) -> Option<Sheaf> {
        let sheaf = self.full.pop()?;
        // To 0: in the child of a fork in a signal handler, `recount` has not counted this sheaf.
        self.objects.sub_to_zero(sheaf.capacity());
        let objects = self.objects.get();
        if objects < self.objects_min.get() {
            self.objects_min.set(objects);
        }
        // Without a locked instruction: a lost hit does not matter.
        self.hits.set(self.hits.get() + 1);
        Some(sheaf)
    }
}

impl Depot {
    pub(crate) const fn new() -> Depot {
        let [limit, overflows, overflowed_ms, sheaf_objects, outside, decayed, uses_seen] =
            [const { Hint::new(0) }; 7];
        let shards = [const { Shard::new() }; SHARDS];
        Depot {
            limit,
            overflows,
            overflowed_ms,
            sheaf_objects,
            outside,
            decayed,
            uses_seen,
            shards,
        }
    }

    /// Prepares an empty depot for a new cache.
    pub(crate) fn reset(&self, shape: &Shape) {
        self.limit.set(limit_min(shape));
        self.overflows.set(0);
        self.shrink_sheaves(shape);
        self.outside.set(0);
        for shard in &self.shards {
            shard.objects_min.set(0);
            // Exchanges of the cache before do not count: the next adjustment is after a long time.
            shard.exchanges_since_ms.set(0);
            shard.hits.set(0);
            shard.flushes.set(0);
        }
    }

    /// Resets the limit, so that a depot that is emptied now stays small.
    pub(crate) fn reset_limit(&self, shape: &Shape) {
        self.limit.set(limit_min(shape));
    }

    /// Takes a full sheaf, from the slot's own shard if possible; returns its cursor.
    pub(crate) fn take_full(&self) -> Option<Cursor> {
        let here = shard_here();
        let sheaf = (0..SHARDS).find_map(|step| self.shards[(here + step) % SHARDS].take())?;
        Some(sheaf.full())
    }

    /// Takes over a full sheaf from the caller. False above the limit: then the caller still has
    /// it, and returns its objects to their slabs.
    #[must_use]
    pub(crate) fn put_full(&self, shape: &Shape, cursor: Cursor) -> bool {
        debug_assert!(cursor.is_full());
        let shard = &self.shards[shard_here()];
        let sheaf = cursor.sheaf();
        let objects = sheaf.capacity();
        let before = shard.objects.add(objects);
        if before < self.limit.get() / SHARDS && !limit::is_near() {
            shard.full.push(sheaf);
            let bytes = before * shape.stride;
            if bytes >= UNUSED_BYTES {
                chunk::note_unused(bytes);
            }
            return true;
        }
        chunk::note_unused(before * shape.stride);
        shard.objects.sub_to_zero(objects);
        self.note_overflow(shape, objects);
        false
    }

    /// The most objects in it. A quarantine holds as many, too, before they go back to slabs.
    pub(crate) fn limit(&self) -> usize {
        self.limit.get()
    }

    /// Notes that objects return to their slabs because there are more than the limit, or, in a
    /// depot, because the heap is near its own.
    pub(crate) fn note_overflow(&self, shape: &Shape, objects: usize) {
        self.overflows.add(objects);
        self.decay(shape, clock::coarse_ms() as usize);
    }

    /// Objects in the depot, full sheaves taken from it, and flushes to slabs.
    pub(crate) fn statistics(&self) -> (usize, u64, u64) {
        let sum =
            |of: fn(&Shard) -> &Hint| self.shards.iter().map(|one| of(one).get()).sum::<usize>();
        (self.objects(), sum(|one| &one.hits) as u64, sum(|one| &one.flushes) as u64)
    }

    /// Raises the limit if the depot has overflowed a short time ago. Called at every refill from
    /// slabs.
    pub(crate) fn missed(&self, shape: &Shape) {
        if self.overflows.get() == 0 {
            return;
        }
        let (overflows, now_ms) = (self.overflows.swap(0), clock::coarse_ms() as usize);
        if now_ms.wrapping_sub(self.overflowed_ms.get()) > SOON_MS {
            return;
        }
        let limit = self.limit.get();
        let raised = limit.saturating_add(overflows.max(limit));
        self.limit.set(raised.min(objects_for(shape, BYTES_MAX)));
        self.decayed.set(now_ms >> DECAY_SHIFT);
    }

    /// Notes an overflow, and halves the limit if it was neither raised nor halved in this second.
    fn decay(&self, shape: &Shape, now_ms: usize) {
        self.overflowed_ms.set(now_ms);
        let now = now_ms >> DECAY_SHIFT;
        if self.decayed.swap(now) != now {
            self.halve(shape);
        }
    }

    fn halve(&self, shape: &Shape) {
        let limit = self.limit.get();
        // It may be below the least since `restrict`.
        self.limit.set(limit.min((limit / 2).max(limit_min(shape))));
    }

    /// For the keeper: the objects that were in the depot at all times since the last tick. Halves
    /// the limit if there are any.
    pub(crate) fn tick(&self, shape: &Shape) -> usize {
        let least = |shard: &Shard| shard.objects_min.swap(shard.objects.get());
        let unused = self.shards.iter().map(least).sum();
        if unused > 0 {
            self.halve(shape);
        }
        unused
    }

    /// Number of objects in it.
    pub(crate) fn objects(&self) -> usize {
        self.shards.iter().map(|shard| shard.objects.get()).sum()
    }

    /// In the child of a fork: another thread may have counted a sheaf that it did not put.
    pub(crate) fn recount(&self) {
        for shard in &self.shards {
            let kept = SheafStack::new();
            let mut objects = 0;
            while let Some(sheaf) = shard.full.pop() {
                objects += sheaf.capacity();
                kept.push(sheaf);
            }
            while let Some(sheaf) = kept.pop() {
                shard.full.push(sheaf);
            }
            shard.objects.set(objects);
        }
    }

    /// Restricts what the depot and new sheaves may hold to a share of what is in use.
    pub(crate) fn restrict(&self, shape: &Shape) {
        self.limit.set(self.limit.get().min(self.in_use() / 4));
        self.shrink_sheaves(shape);
    }
}

fn objects_for(shape: &Shape, bytes: usize) -> usize {
    let sheaves = if shape.is_alone() { 0 } else { SHARDS * SHEAVES_MIN };
    (bytes / shape.stride).max(sheaves * shape.sheaf_objects)
}

/// Initial limit of a cache, in objects.
fn limit_min(shape: &Shape) -> usize {
    objects_for(shape, BYTES_MIN)
}

#[cfg(test)]
#[path = "../../tests/unit/depot.rs"]
mod tests;
