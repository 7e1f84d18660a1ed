//! Objects that are freed once the readers of now are gone.
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
//! The common case is the push that `free` makes, onto another word. Nothing is written into the
//! object, which readers may still have. A sealed sheaf never gets another object, and its cookie
//! is younger than each of its objects, so that one look at the cookie answers for all of them.
//! What comes out at the end is a full sheaf for the next allocations: no work for each object.
//!
//! | an object is in | who may touch it | moves on |
//! |---|---|---|
//! | the rcu sheaf of a slot | readers | the sheaf is full, or `seal_all` |
//! | the open sheaf of a queue | readers | the same; for threads without a slot, and debug caches |
//! | a sealed sheaf | readers | its cookie has passed |
//! | a sheaf that was ready | its next owner | |
//!
//! Who starts grace periods: every so many sealed sheaves the thread that seals one, by leading a
//! grace period as far as it goes without waiting; before that, the byte limits of
//! [`sheaves_rcu::defer`]; and its reclaimer, by age.

mod emergency;
mod queue;
mod seal;

use sheaves_percpu::engine::{cmp_store, load, push_slow};
use sheaves_percpu::sheaf::{VACANT, is_full};
use sheaves_percpu::slots::{Attached, attach};
use sheaves_rcu::Cookie;
use sheaves_rcu::defer::{self, Pressure};

use crate::descriptor::CacheId;
use crate::pool::{self, Sheaf};
use crate::slow::is_sheaf;
use crate::{debug, depot, flush, registry};

pub use emergency::{Emergencies, emergencies, fail_one_in};
pub(crate) use queue::Queue;
pub(crate) use seal::{finish, forget, start};

/// How often a push starts over because other threads changed the slot under it.
const ATTEMPTS: u32 = 16;
/// So many ready sheaves at most leave a queue that is long, for each one that comes.
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

/// An empty sheaf with the object in it takes the place of the full one, which is sealed. False
/// when nothing happened.
fn exchange(id: CacheId, object: usize) -> bool {
    let word = id.deferred();
    let before = load(word);
    let is_replaceable = before == VACANT.get() || (is_sheaf(before) && is_full(before));
    if !is_replaceable {
        return false;
    }
    let Some(empty) = queue::empty_sheaf(id) else { return false };
    // Before anybody can push onto it, so that whoever seals everything does not miss it.
    start(id);
    let cursor = Sheaf::add(empty, object);
    // SAFETY: `before` is not the bootstrap cursor; the sheaf and the object in it are ours.
    if !unsafe { cmp_store(word, before, cursor) } {
        pool::put_empty(Sheaf::of_cursor(cursor));
        return false;
    }
    if is_sheaf(before) && seal(id, before) {
        defer::after_seal();
    }
    defer::arm();
    true
}

/// Defers an object of a thread that has no slot, or of a cache that keeps none.
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

/// Seals a sheaf that the caller has taken out of a slot's word. True if [`defer::after_seal`] is
/// to follow, without locks.
#[must_use]
pub(crate) fn seal(id: CacheId, cursor: usize) -> bool {
    let queue = id.descriptor().deferred_here();
    queue.seal(id, cursor).is_some_and(|sealed| after_seal(id, queue, &sealed))
}

/// What sealing a sheaf leads to in the queue that has it now. True as in [`seal`].
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

/// A sheaf of objects whose readers are gone, if the current slot's queue has one: its cursor. For
/// the caller.
///
/// Not from other queues: slots that take from each other whenever their own objects still wait
/// would send all of them back and forth between the processors' caches.
#[inline]
pub(crate) fn take_ready(id: CacheId) -> Option<usize> {
    let descriptor = id.descriptor();
    if !descriptor.is_deferring() {
        return None;
    }
    descriptor.deferred_here().take_ready(id)
}

/// The same from any queue, for whoever finds nothing elsewhere.
pub(crate) fn take_any_ready(id: CacheId) -> Option<usize> {
    id.descriptor().deferred.iter().find_map(|queue| queue.take_ready(id))
}

/// Takes back everything whose cookie has passed; true if there was something.
pub(crate) fn reclaim(id: CacheId) -> bool {
    let mut any = false;
    while let Some(cursor) = take_any_ready(id) {
        put_away(id, cursor);
        any = true;
    }
    tell_all(id);
    any
}

/// Tells `sheaves-rcu` of everything that is sealed, so that its sums are exact.
fn tell_all(id: CacheId) {
    id.descriptor().deferred.iter().for_each(Queue::tell_all);
}

/// Finds a place for a sheaf whose readers are gone.
fn put_away(id: CacheId, cursor: usize) {
    if id.shape().debug {
        debug::reclaim(id, cursor);
    } else if is_full(cursor) {
        depot::put_full(id, cursor);
    } else {
        flush::flush_sheaf(id, cursor);
    }
}

/// Waits until nothing of the cache is deferred any more. For a cache that nobody else uses. False
/// inside of a read section, with what is deferred still there.
pub(crate) fn drain(id: CacheId) -> bool {
    if !id.descriptor().is_deferring() {
        return true;
    }
    // Not while somebody else seals everything: he may have a sheaf of this cache in his hands.
    registry::while_none_ends(|| seal::seal_one(id));
    let waited = Cookie::get().wait_expedited();
    reclaim(id);
    waited.is_ok()
}

/// Objects of a cache that are deferred, but for those in the slots' sheaves.
pub(crate) fn objects_in_queues(id: CacheId) -> usize {
    id.descriptor().deferred.iter().map(Queue::objects).sum()
}
