//! Objects that are freed after a grace period.
//!
//! ```text
//!   free_rcu --push--> deferred sheaf of the slot, without a cookie
//!                         | full, drained, or old: sealed, *then* given a cookie
//!                         v
//!                      queue of sealed sheaves, oldest first
//!                         | cookie passed
//!                         v
//!                      main sheaf | depot | slabs
//! ```
//!
//! The common case is the same push as that of `free`, onto another word. Nothing is written into
//! the object, which readers may still use. A sealed sheaf never gets another object, and it gets
//! its cookie only then: one check of the cookie answers for all of its objects. After the grace
//! period the full sheaf becomes a main sheaf as it is, without work per object.
//!
//! | an object is in | may be used by | leaves when |
//! |---|---|---|
//! | the deferred sheaf of a slot | readers | the sheaf is full, or all is sealed |
//! | the open sheaf of a queue | readers | the same; without the other one, or in a sandbox |
//! | a sealed sheaf | readers | its cookie has passed |
//! | a sheaf that was ready | its next owner | |
//!
//! Three parts of the code start grace periods. After every `start_after` sealed sheaves the
//! sealing thread starts one, and leads it as far as it goes without waiting. The byte limits of
//! [`sheaves_rcu::defer`] start one earlier, and its reclaimer starts one by age.

mod all;
mod emergency;
mod seal;

use sheaves_percpu::internal::slots::attach;
use sheaves_percpu::internal::{Cursor, cmp_store, load, push_slow};
use sheaves_rcu::internal;
use sheaves_sys::sandbox;

use crate::moves::slot::ATTEMPTS;
use crate::moves::tags;
use crate::parts::{deferred_queue, pool};
use crate::space::cache_id::CacheId;

pub(crate) use all::wait_and_reclaim;
pub(crate) use all::{note_deferring, pending, reclaim_all, seal_all, seal_in_child};
#[cfg(feature = "faults")]
pub use emergency::FAULTS;
pub use emergency::{Emergencies, emergencies};
pub(crate) use seal::{objects, reclaim, reclaim_if_existing, take_any_ready, take_ready};

/// Defers an object of a plain cache when the fast path found no room.
pub(crate) fn push(id: CacheId, object: usize) {
    let word = id.deferred();
    for _ in 0..ATTEMPTS {
        if !attach() {
            break;
        }
        // SAFETY: the caller of `free_rcu` owns the object and does not use it again.
        if unsafe { push_slow(word, object) } {
            return;
        }
        if sandbox::is_near() {
            vacate(id);
            break;
        }
        if exchange(id, object) {
            return;
        }
    }
    push_open(id, object);
}

/// Seals the full sheaf of the slot, which gets no other one: in a sandbox no thread reaches the
/// slots of others.
fn vacate(id: CacheId) {
    let before = load(id.deferred());
    if before.is_sheaf() {
        // Otherwise another thread has changed the slot.
        let _is_sealed = replace(id, before, Cursor::VACANT);
    }
}

/// Stores an empty sheaf with the object in place of the full one, and seals the full one. False
/// when nothing was changed.
fn exchange(id: CacheId, object: usize) -> bool {
    let before = load(id.deferred());
    if before == Cursor::BOOTSTRAP || !before.is_full() {
        return false;
    }
    let Some(sheaf) = emergency::take_empty(id) else { return false };
    // Before a thread can push onto the new sheaf, so that sealing everything does not miss it.
    note_deferring(id);
    // SAFETY: the sheaf is ours, and empty.
    let cursor = unsafe { deferred_queue::format(id.shape(), sheaf).push(object) };
    let is_replaced = replace(id, before, cursor);
    if is_replaced {
        internal::arm_age();
    } else {
        pool::put_empty(sheaf);
    }
    is_replaced
}

/// Replaces `before`, which is not the bootstrap cursor, in the current slot by [`Cursor::VACANT`]
/// or a sheaf of the caller, and seals it. False when nothing was changed.
fn replace(id: CacheId, before: Cursor, cursor: Cursor) -> bool {
    let queue = id.queue_here();
    // Held from before the exchange on: a thread that takes the sheaves of all slots, and then this
    // lock, has either taken the sheaf or finds it sealed. The flag is read under it, too: the
    // first pass of `before_sandbox` waits for it, and the second takes what was put into a slot.
    let mut waiting = queue.waiting.lock();
    let is_refused = cursor.is_sheaf() && sandbox::is_near();
    // SAFETY: `before` is not the bootstrap cursor; the caller owns the sheaf of `cursor`, if any.
    if is_refused || !unsafe { cmp_store(id.deferred(), before, cursor) } {
        return false;
    }
    let added = before.is_sheaf().then(|| {
        seal::note(id, before);
        queue.seal_taken(id.shape(), &mut waiting, before)
    });
    drop(waiting);
    if added.is_some_and(|added| seal::start_and_take_ready(id, queue, &added)) {
        internal::wake_if_pressed();
    }
    true
}

/// Defers an object of a thread without a slot, or of a hardened cache, whose word stays vacant: a
/// caller with a layout would find that of another class.
pub(crate) fn push_open(id: CacheId, object: usize) {
    note_deferring(id);
    tags::note_deferred(id, &[object]);
    let queue = id.queue_here();
    match queue.push_open(id.shape(), object, || emergency::take_empty(id)) {
        Ok(None) => internal::arm_age(),
        Ok(Some(sealed)) => {
            if seal::start_and_take_ready(id, queue, &sealed) {
                internal::wake_if_pressed();
            }
        }
        Err(deferred_queue::NoSheaf) => emergency::free(id, object),
    }
}
