//! Objects that are freed after a grace period.
//!
//! ```text
//!   free_rcu --push--> rcu sheaf of the slot, without a cookie
//!                         | full, drained, or old: sealed, *then* given a cookie
//!                         v
//!                      queue of sealed sheaves, oldest first
//!                         | cookie passed
//!                         v
//!                      sheaf of allocations | depot | slabs
//! ```
//!
//! The common case is the same push as that of `free`, onto another word. Nothing is written into
//! the object, which readers may still use. A sealed sheaf never gets another object, and its
//! cookie is younger than each of its objects: one check of the cookie answers for all of them.
//! After the grace period the full sheaf serves allocations as it is, without work per object.
//!
//! | an object is in | may be used by | leaves when |
//! |---|---|---|
//! | the rcu sheaf of a slot | readers | the sheaf is full, or `seal_all` |
//! | the open sheaf of a queue | readers | the same; for threads without a slot, and debug caches |
//! | a sealed sheaf | readers | its cookie has passed |
//! | a sheaf that was ready | its next owner | |
//!
//! Grace periods are started by three sides. After every `start_after` sealed sheaves the sealing
//! thread starts one, and leads it as far as it goes without waiting. The byte limits of
//! [`sheaves_rcu::defer`] start one earlier, and its reclaimer starts one by age.

mod emergency;
mod queue;
mod seal;

use sheaves_percpu::Cursor;
use sheaves_percpu::engine::{cmp_store, load, push_slow};
use sheaves_percpu::slots::{Attached, attach};
use sheaves_rcu::Cookie;
use sheaves_rcu::defer::{self, Pressure};

use crate::descriptor::CacheId;
use crate::{debug, depot, flush, pool, registry};

pub use emergency::{Emergencies, emergencies, fail_one_in};
pub(crate) use queue::Queue;
pub(crate) use seal::{finish, forget, start};

/// Attempts of a push, which fails when other threads change the slot meanwhile.
const ATTEMPTS: u32 = 16;
/// A sealed sheaf of a long queue takes at most this many ready sheaves out of it.
const RECLAIM: usize = 2;

/// Defers an object when the fast path found no room.
#[cold]
#[inline(never)]
pub(crate) fn free_rcu_slow(id: CacheId, object: usize) {
    let word = id.deferred();
    if id.shape().debug {
        if debug::defer(id, object) {
            push_open(id, object);
        }
        return;
    }
    for _ in 0..ATTEMPTS {
        if attach() == Attached::No {
            break;
        }
        // SAFETY: the caller of `free_rcu` owns the object and does not use it again.
        if unsafe { push_slow(word, object) } || exchange(id, object) {
            return;
        }
    }
    push_open(id, object);
}

/// Stores an empty sheaf with the object in place of the full one, and seals the full one. False
/// when nothing was changed.
fn exchange(id: CacheId, object: usize) -> bool {
    let word = id.deferred();
    let before = load(word);
    let is_replaceable = before != Cursor::BOOTSTRAP && before.is_full();
    if !is_replaceable {
        return false;
    }
    let Some(empty) = queue::empty_sheaf(id) else { return false };
    // Before a thread can push onto it, so that sealing everything does not miss it.
    start(id);
    // SAFETY: the sheaf is ours, and empty.
    let cursor = unsafe { empty.push(object) };
    // SAFETY: `before` is not the bootstrap cursor; the sheaf and the object in it are ours.
    if !unsafe { cmp_store(word, before, cursor) } {
        pool::put_empty(cursor.sheaf());
        return false;
    }
    if before.is_sheaf() && seal(id, before) {
        defer::after_seal();
    }
    defer::arm();
    true
}

/// Defers an object of a thread without a slot, or of a cache without rcu sheaves (debug).
fn push_open(id: CacheId, object: usize) {
    start(id);
    let queue = id.descriptor().deferred_here();
    match queue.push_open(id, object) {
        Ok(None) => defer::arm(),
        Ok(Some(sealed)) => {
            if after_seal(id, queue, &sealed) {
                defer::after_seal();
            }
        }
        Err(queue::NoSheaf) => emergency::free(id, object),
    }
}

/// Seals a sheaf that the caller has taken out of a slot's word. True if the caller must call
/// [`defer::after_seal`], without locks.
#[must_use]
pub(crate) fn seal(id: CacheId, cursor: Cursor) -> bool {
    let queue = id.descriptor().deferred_here();
    queue.seal(id, cursor).is_some_and(|sealed| after_seal(id, queue, &sealed))
}

/// Starts grace periods and takes ready sheaves after `queue` got a sealed sheaf. True as in
/// [`seal`].
fn after_seal(id: CacheId, queue: &Queue, sealed: &queue::SealedSheaf) -> bool {
    let pressure = sealed.pressure;
    if pressure >= Pressure::High {
        sealed.cookie.start_expedited();
    } else if queue.is_time(sealed.unstarted, pressure == Pressure::Soft) {
        queue.start(sealed.cookie);
    }
    let most = match pressure {
        Pressure::Hard => usize::MAX,
        Pressure::None if !sealed.is_long => 0,
        _ => RECLAIM,
    };
    (0..most).map_while(|_| queue.take_ready(id)).for_each(|cursor| put_away(id, cursor));
    sealed.is_told
}

/// The cursor of a sheaf whose grace period is over, if the current slot's queue has one. The
/// caller owns it.
///
/// Not from other queues: slots whose own objects still wait would take from each other, and move
/// all objects back and forth between the CPUs' caches.
#[inline]
pub(crate) fn take_ready(id: CacheId) -> Option<Cursor> {
    let descriptor = id.descriptor();
    if !descriptor.is_deferring() {
        return None;
    }
    descriptor.deferred_here().take_ready(id)
}

/// As [`take_ready`], from any queue: for a thread that finds nothing elsewhere.
pub(crate) fn take_any_ready(id: CacheId) -> Option<Cursor> {
    id.descriptor().deferred.iter().find_map(|queue| queue.take_ready(id))
}

/// Reclaims everything whose cookie has passed; true if there was something.
pub(crate) fn reclaim(id: CacheId) -> bool {
    let mut any = false;
    while let Some(cursor) = take_any_ready(id) {
        put_away(id, cursor);
        any = true;
    }
    tell_all(id);
    any
}

/// Reports everything that is sealed to `sheaves-rcu`, so that its sums are exact.
fn tell_all(id: CacheId) {
    id.descriptor().deferred.iter().for_each(Queue::tell_all);
}

/// Puts a sheaf whose grace period is over into the depot, or flushes it.
fn put_away(id: CacheId, cursor: Cursor) {
    if id.shape().debug {
        debug::reclaim(id, cursor);
    } else if cursor.is_full() {
        depot::put_full(id, cursor);
    } else {
        flush::flush_sheaf(id, cursor);
    }
}

/// Waits until no object of the cache is deferred any more. For a cache that no other thread uses.
/// False inside of a read section, where the deferred objects stay.
pub(crate) fn drain(id: CacheId) -> bool {
    if !id.descriptor().is_deferring() {
        return true;
    }
    // Not while another thread seals everything: it may hold a sheaf of this cache.
    registry::while_none_ends(|| seal::seal_one(id));
    let waited = Cookie::get().wait_expedited();
    reclaim(id);
    waited.is_ok()
}

/// Deferred objects of a cache, without those in the slots' sheaves.
pub(crate) fn objects_in_queues(id: CacheId) -> usize {
    id.descriptor().deferred.iter().map(Queue::objects).sum()
}
