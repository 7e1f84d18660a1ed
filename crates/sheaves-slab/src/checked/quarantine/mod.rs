//! The quarantine: what is freed in a hardened cache waits here before it can be allocated again.
//!
//! ```text
//!   free: the object is sealed: checked, marked as free, cleared
//!     |
//!     | push
//!     v
//!   sheaf of the slot
//!     | full or drained
//!     v
//!   queue of the cache, oldest first, bounded by bytes and age
//!     |
//!     | too much
//!     |------------.
//!     |          slabs
//!     |------------'
//!     | refill, in random order: checked again, marked as in use
//!     v
//!   sheaf of the slot --pop--> alloc
//! ```
//!
//! An object is marked as free from the moment of its free until it is about to be allocated. So
//! a second free is found at once, however far the first one has come, on whichever CPU; and
//! nothing is waited for: no other thread, no grace period, no time, no system call.
//!
//! A second free of an object that is about to be allocated, or is in use, cannot be told from a
//! first one. The quarantine makes the time until then long.
//!
//! A fork whose handlers do not run may lose what a thread that is not in the child was moving.

mod queue;
mod seal;

use sheaves_percpu::internal::Cursor;
use sheaves_sys::lock;

use crate::moves::registry::{self, if_existing};
use crate::moves::{flush, refill, release, slot};
use crate::parts::pool;
use crate::records::{object_bytes, profile};
use crate::space::cache_id::{CLASSES_MAX, CacheId};
use crate::space::chunk;
use crate::space::granule::is_watched;
use crate::space::hint::Hint;

pub(crate) use queue::of;
use queue::{have_too_much, objects_max};
pub(crate) use seal::seal_sheaf;
pub(crate) use seal::{add, append, check_neighbour, is_free, mark_quick, return_unused, seal};

/// The library's thread is woken above this.
const MUCH_BYTES: usize = 64 << 10;

/// Seals one object, and puts it into quarantine.
pub(crate) fn free(id: CacheId, object: usize) {
    if seal(id, id.shape(), object) {
        add(id, object);
        flush_surplus(id);
    }
}

/// Returns the objects of a sheaf to allocate from to their slabs.
pub(crate) fn put_back(id: CacheId, cursor: Cursor) {
    slot::untag(id, cursor);
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    return_unused(id, unsafe { cursor.objects() });
    pool::put_empty(cursor.sheaf());
}

/// The least spare of a quarantine, in objects.
const SPARE_MIN: usize = 16;

/// At most this many sheaves leave at a call of a program, and at one hold of the registry's lock.
const SHEAVES_MAX: usize = 16;

/// Flushes some of what there is too much of. More may wait than otherwise before it goes back to
/// slabs: what is freed at a stretch is often allocated at a stretch. Size classes are bounded
/// together.
pub(crate) fn flush_surplus(id: CacheId) {
    let (quarantine, depot, most) = (of(id), &id.descriptor().depot, objects_max(id));
    let spare = if id.is_class() { depot.limit() } else { most / 2 };
    let most = most + spare.max(depot.sheaf_objects()).max(SPARE_MIN);
    for cursor in (0..SHEAVES_MAX).map_while(|_| quarantine.take_surplus(id, most)) {
        // What leaves because it is too old, or near a limit of the heap, did not overflow.
        if quarantine.objects() + cursor.fill() > most {
            depot.note_overflow(id.shape(), cursor.fill());
        }
        flush::flush_sheaf(id, cursor);
    }
    flush_in_turn();
    let bytes = quarantine.objects() * id.shape().stride;
    if bytes >= MUCH_BYTES {
        chunk::note_unused(bytes);
    }
}

/// What size classes may have too much before it goes back to slabs.
const BYTES_IN_TURN: usize = 256 << 10;

/// Flushes the oldest sheaves of size classes in turn, while all together have too much. So each
/// has what it frees, and one that frees no more gives way to others.
fn flush_in_turn() {
    static TURN: Hint = Hint::new(0);
    let turns = (0..CLASSES_MAX).map(|_| CacheId::of_class(TURN.add(1) % CLASSES_MAX));
    // What has an object exists, and size classes do so for ever.
    let ids =
        turns.take_while(|_| have_too_much(BYTES_IN_TURN)).filter(|id| of(*id).objects() != 0);
    let sheaves = ids.filter_map(|id| Some((id, take_any(id)?)));
    sheaves.take(SHEAVES_MAX).for_each(|(id, cursor)| _ = flush::flush_sheaf(id, cursor));
}

/// Takes objects to allocate of which there are too many. They go through no slab.
pub(crate) fn take_ready(id: CacheId) -> Option<Cursor> {
    let shape = id.shape();
    let cursor = of(id).take_surplus(id, objects_max(id))?;
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    let objects = unsafe { cursor.objects() };
    // Those of watched slabs are for samples.
    let is_for_samples = profile::is_used() && objects.iter().any(|object| is_watched(*object));
    if shape.has_canary() && !is_for_samples {
        object_bytes::prepare(shape, objects);
        return Some(cursor);
    }
    flush::flush_sheaf(id, cursor);
    None
}

/// For the keeper: flushes some of what is too much or too old. True if there was something.
pub(crate) fn tick(id: CacheId) -> bool {
    let take = || of(id).take_surplus(id, objects_max(id));
    !id.shape().is_plain() && flush_some(id, take) != 0
}

/// The bytes that are too much.
pub(crate) fn surplus_bytes(id: CacheId) -> usize {
    if id.shape().is_plain() {
        return 0;
    }
    of(id).objects().saturating_sub(objects_max(id)) * id.shape().stride
}

/// Flushes all that waits now, after checking all bytes. The registry's lock is held for a piece at
/// a time. True if there was something.
pub(crate) fn flush_queue(id: CacheId) -> bool {
    let waiting = of(id).objects();
    let mut left = waiting;
    while left != 0
        && let Some(count @ 1..) = if_existing(id, flush_oldest)
    {
        left = left.saturating_sub(count);
    }
    waiting != 0
}

/// Flushes some, after checking all bytes. Returns the number of objects.
pub(crate) fn flush_oldest(id: CacheId) -> usize {
    let take_checked = || {
        let cursor = take_any(id)?;
        // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
        let objects = unsafe { cursor.objects() };
        objects.iter().for_each(|object| object_bytes::check(id.shape(), *object));
        Some(cursor)
    };
    flush_some(id, take_checked)
}

/// Flushes what `take` takes, [`SHEAVES_MAX`] sheaves at most. Returns the number of objects.
fn flush_some(id: CacheId, take: impl Fn() -> Option<Cursor>) -> usize {
    let sheaves = (0..SHEAVES_MAX).map_while(|_| take()).inspect(|_| lock::step());
    sheaves.map(|cursor| flush::flush_sheaf(id, cursor)).sum()
}

fn take_any(id: CacheId) -> Option<Cursor> {
    let mut fifo = of(id).fifo.lock();
    fifo.append_open();
    of(id).take_oldest(id, &mut fifo)
}

/// Takes one object from the slabs, or what is in quarantine if memory is out. Otherwise 0.
pub(crate) fn refill_one(id: CacheId) -> usize {
    let mut one = [0];
    if refill::refill(id, &mut one) == 0 {
        let any = registry::all_ids().fold(false, |any, id| flush_queue(id) | any);
        release::arm_reclaimer_if_pending();
        if any {
            refill::refill(id, &mut one);
        }
    }
    one[0]
}
