//! Sealing a sheaf, and reclaiming those whose cookies have passed.

use sheaves_percpu::internal::Cursor;
use sheaves_rcu::internal;
use sheaves_rcu::internal::pressure::{self, Pressure};
use sheaves_sys::{lock, probe};

use crate::checked::incoming;
use crate::moves::registry::if_existing;
use crate::moves::{slot, tags};
use crate::parts::deferred_queue::{JustSealed, ShardQueue};
use crate::space::cache_id::CacheId;

/// A thread that seals a sheaf of a long queue takes at most this many ready sheaves out of it.
const RECLAIM: usize = 2;
/// The registry's lock is held for this many sheaves that are reclaimed, then others may have it.
const RECLAIMED_MAX: usize = 16;

/// Seals a sheaf that the caller has taken out of a slot's word. The caller reclaims next, so no
/// thread has to be woken for that.
pub(super) fn seal(id: CacheId, cursor: Cursor) {
    note(id, cursor);
    let queue = id.queue_here();
    if let Some(sealed) = queue.seal(id.shape(), cursor) {
        let _is_told = start_and_take_ready(id, queue, &sealed);
    }
}

/// Notes for profiles and guards that the objects of a sheaf are deferred.
pub(super) fn note(id: CacheId, cursor: Cursor) {
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    tags::note_deferred(id, unsafe { cursor.objects() });
}

/// Starts grace periods and takes ready sheaves after `queue` got a sealed sheaf. True if the
/// caller has to call [`internal::wake_if_pressed`], without locks.
pub(super) fn start_and_take_ready(id: CacheId, queue: &ShardQueue, sealed: &JustSealed) -> bool {
    let cookie = sealed.cookie.to_bits() as usize;
    probe::seal(id.number().into(), sealed.objects, cookie);
    let pressure = pressure::now();
    if pressure >= Pressure::High {
        if internal::start_quietly(sealed.cookie, true) {
            internal::request_membarrier();
        }
    } else if queue.is_time(sealed.unstarted, pressure == Pressure::Soft) {
        queue.start(sealed.cookie);
    }
    let most = match pressure {
        Pressure::Hard => usize::MAX,
        Pressure::None if !sealed.is_long => 0,
        _ => RECLAIM,
    };
    let ready = (0..most).map_while(|_| queue.take_ready(id.shape()));
    ready.for_each(|cursor| incoming::reclaimed(id, close_records(id, cursor)));
    sealed.is_told
}

/// The cursor of a sheaf whose grace period is over, if the current slot's queue has one. The
/// caller owns it.
///
/// Not from other queues: slots whose own objects still wait would take from each other, and move
/// all objects back and forth between the CPUs' caches.
#[inline]
pub(crate) fn take_ready(id: CacheId) -> Option<Cursor> {
    if !id.is_deferring() {
        return None;
    }
    id.queue_here().take_ready(id.shape()).map(|cursor| close_records(id, cursor))
}

/// As [`take_ready`], from any queue: for a thread that finds nothing elsewhere.
pub(crate) fn take_any_ready(id: CacheId) -> Option<Cursor> {
    if !id.is_deferring() {
        return None;
    }
    let mut queues = id.queues().iter();
    queues.find_map(|queue| queue.take_ready(id.shape())).map(|cursor| close_records(id, cursor))
}

/// Ends the records of samples in a sheaf whose grace period is over, which the caller owns.
fn close_records(id: CacheId, cursor: Cursor) -> Cursor {
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    tags::close_deferred(id, unsafe { cursor.objects() });
    cursor
}

/// Reclaims everything whose cookie has passed.
pub(crate) fn reclaim(id: CacheId) {
    while reclaim_some(id) == RECLAIMED_MAX {}
}

/// [`reclaim`] of a cache that another thread may destroy; true if there was something. The
/// registry's lock, for which forks wait, is held for a piece at a time.
pub(crate) fn reclaim_if_existing(id: CacheId) -> bool {
    let mut any = false;
    while let Some(count @ 1..) = if_existing(id, reclaim_some) {
        any = true;
        if count < RECLAIMED_MAX {
            break;
        }
    }
    any
}

/// Reclaims what is in sheaves whose cookies have passed, [`RECLAIMED_MAX`] of them at most.
/// Returns how many there were.
fn reclaim_some(id: CacheId) -> usize {
    let mut count = 0;
    while count < RECLAIMED_MAX
        && let Some(cursor) = take_any_ready(id)
    {
        lock::step();
        incoming::reclaimed(id, cursor);
        count += 1;
    }
    if count < RECLAIMED_MAX {
        tell_all(id);
    }
    count
}

/// Reports everything that is sealed to `sheaves-rcu`, so that its sums are exact.
pub(super) fn tell_all(id: CacheId) {
    id.queues().iter().for_each(|queue| queue.waiting.lock().tell_all());
}

/// Objects of the cache that are deferred.
pub(crate) fn objects(id: CacheId) -> usize {
    if !id.is_deferring() {
        return 0;
    }
    id.queues().iter().map(ShardQueue::objects).sum::<usize>() + slot::objects_in(&[id.deferred()])
}
