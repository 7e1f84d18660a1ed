//! The size of a cache's new sheaves, by the rate of its exchanges: short ones keep the working set
//! small, long ones make exchanges of a slot's main sheaf rare.
//!
//! A cache of large objects that is used rarely has no sheaves: what is freed goes back to its
//! slab, and the empty slab serves other caches.

use sheaves_percpu::internal::{Cursor, Sheaf};
use sheaves_percpu::slot_count;
use sheaves_sys::clock;

use crate::parts::depot::{Depot, Shard};
use crate::parts::pool::{self, SHARDS, shard_here};
use crate::parts::shape::Shape;
use crate::space::chunk;

/// After this many exchanges of main sheaves the size of new sheaves is adjusted.
pub(super) const EXCHANGES: usize = 32;
/// A shorter time for [`EXCHANGES`] doubles the size (the clock's own step is 1 to 10 ms): 4,000
/// exchanges a second.
const EXCHANGES_SHORT_MS: usize = 8;
/// A longer time for [`EXCHANGES`] halves the size.
pub(super) const EXCHANGES_LONG_MS: usize = 512;

/// What the sheaves of all slots may hold of a cache, even if less is in use: these bytes, and as
/// many objects as the longest sheaves of two slots. What is in slots counts as in use: without the
/// second bound sheaves in many slots would make each other grow.
const BATCH_BYTES: usize = 16 << 20;
const BATCH_OBJECTS: usize = 4 * Sheaf::OBJECTS_MAX;

impl Depot {
    /// For the keeper: true if sheaves were exchanged or refilled since the last tick.
    pub(crate) fn was_used(&self, refills: u64) -> bool {
        let exchanges = self.shards.iter().map(|shard| shard.exchanges.get()).sum::<usize>();
        let uses = exchanges.wrapping_add((refills as usize).wrapping_mul(SHARDS * EXCHANGES));
        self.uses_seen.swap(uses) != uses
    }

    /// New sheaves are as small as those of a new cache.
    pub(crate) fn shrink_sheaves(&self, shape: &Shape) {
        self.sheaf_objects.set(shape.sheaf_objects_min());
    }

    /// An empty sheaf for this cache; its cursor, on the sentinel. `None` when memory is out, or
    /// when slots get no sheaves.
    pub(crate) fn empty_sheaf(&self) -> Option<Cursor> {
        match self.sheaf_objects.get() {
            0 => None,
            objects => Some(pool::format(pool::take_empty()?, objects)),
        }
    }

    /// Objects of a new sheaf.
    pub(crate) fn sheaf_objects(&self) -> usize {
        self.sheaf_objects.get()
    }

    /// How many slabs without allocated objects the cache keeps.
    pub(crate) fn empty_slabs_kept(&self) -> u32 {
        self.sheaf_objects.get().min(1) as u32
    }

    /// Notes an exchange of a slot's main sheaf, and sizes new sheaves by the rate of exchanges.
    pub(crate) fn note_exchange(&self, shape: &Shape) {
        let shard = &self.shards[shard_here()];
        // Without a locked instruction: a lost exchange does not matter.
        let exchanges = shard.exchanges.get() + 1;
        shard.exchanges.set(exchanges % EXCHANGES);
        if exchanges == EXCHANGES {
            self.size_sheaves(shape, shard);
        }
    }

    /// Doubles the size of new sheaves if the last [`EXCHANGES`] took a short time, up to
    /// [`objects_max`], and halves it if they took a long time.
    #[cold]
    fn size_sheaves(&self, shape: &Shape, shard: &Shard) {
        let now_ms = clock::coarse_ms();
        chunk::note_use(now_ms);
        let now = now_ms as usize;
        let took_ms = now.wrapping_sub(shard.exchanges_since_ms.swap(now));
        let objects = self.sheaf_objects.get();
        let wanted = match took_ms {
            0..=EXCHANGES_SHORT_MS => {
                let objects_max = objects_max(shape, self.in_use(), slot_count());
                objects.max(objects_max.min(objects * 2 + 1))
            }
            EXCHANGES_LONG_MS.. => objects / 2,
            _ => return,
        };
        self.sheaf_objects.set(wanted.clamp(shape.sheaf_objects_min(), shape.sheaf_objects));
    }

    /// Gives a sheaf with objects, which the caller owns, the size of new ones if that is larger.
    /// Where few objects go round, the one that is in use is seldom empty when it is exchanged.
    pub(crate) fn enlarge(&self, cursor: Cursor) -> Cursor {
        let objects = self.sheaf_objects.get();
        if objects <= cursor.sheaf().capacity() { cursor } else { pool::resize(cursor, objects) }
    }

    /// Gives an empty sheaf, which the caller owns, the size of new ones. Returns the cursor, or
    /// VACANT when slots get no sheaves.
    pub(crate) fn refit(&self, empty: Cursor) -> Cursor {
        debug_assert!(empty.is_empty());
        match self.sheaf_objects.get() {
            0 => {
                pool::put_empty(empty.sheaf());
                Cursor::VACANT
            }
            objects if objects == empty.sheaf().capacity() => empty,
            objects => pool::format(empty.sheaf(), objects),
        }
    }
}

/// Up to how many objects sheaves grow where exchanges are frequent: each to what is in use, so
/// that a program which allocates some and then frees them needs one; those of all slots to as
/// many, or to what [`BATCH_BYTES`] and [`BATCH_OBJECTS`] allow if that is more.
pub(super) fn objects_max(shape: &Shape, in_use: usize, slots: usize) -> usize {
    let batch = BATCH_OBJECTS.min(BATCH_BYTES / shape.stride);
    in_use.min(batch.max(in_use) / (2 * slots)).max(1)
}
