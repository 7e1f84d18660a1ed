//! What a cache has outside of its slabs, and by how much that has fallen, of all caches.

use crate::parts::depot::Depot;
use crate::parts::pool::shard_here;
use crate::parts::shape::Shape;
use crate::space::hint::Hint;

impl Depot {
    /// Counts a flush of objects to slabs. True if pages are to be discarded as they become free,
    /// and less is outside slabs now than at any time since that began.
    pub(crate) fn count_flush(&self, shape: &Shape, objects: usize) -> bool {
        self.outside.sub(objects);
        let drop_bytes = DROP_BYTES.get().saturating_add(objects * shape.stride);
        DROP_BYTES.set(drop_bytes);
        self.shards[shard_here()].flushes.add(1);
        let is_low = drop_bytes > LOW_BYTES.get();
        if is_low {
            LOW_BYTES.set(drop_bytes);
        }
        is_low
    }

    /// Counts objects that a refill has taken from slabs.
    pub(crate) fn count_refill(&self, shape: &Shape, objects: usize) {
        self.outside.add(objects);
        DROP_BYTES.set(DROP_BYTES.get().saturating_sub(objects * shape.stride));
    }

    /// Objects that are not in slabs.
    pub(crate) fn outside(&self) -> usize {
        self.outside.get()
    }

    /// Objects in use, in slots, or deferred.
    pub(crate) fn in_use(&self) -> usize {
        self.outside.get().saturating_sub(self.objects())
    }
}

/// By how much all that is outside slabs, in bytes, is below the most that it was since the last
/// [`begin_drop`]. Without a locked instruction: it may be off by some sheaves.
static DROP_BYTES: Hint = Hint::new(0);

/// See [`DROP_BYTES`].
#[inline]
pub(crate) fn drop_bytes() -> usize {
    DROP_BYTES.get()
}

/// The largest drop so far while pages are discarded as they become free; [`NEVER`] if they are
/// not.
static LOW_BYTES: Hint = Hint::new(NEVER);
const NEVER: usize = usize::MAX;

/// From here on a drop is measured anew. With `discards`, a flush discards pages at once as long as
/// what is outside slabs falls.
pub(crate) fn begin_drop(discards: bool) {
    DROP_BYTES.set(0);
    LOW_BYTES.set(if discards { 0 } else { NEVER });
}
