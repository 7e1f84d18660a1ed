//! The quarantine: what is freed in a hardened cache waits here before it can be allocated again.
//!
//! ```text
//!   free --push--> sheaf of the slot        not checked yet: `free` is the same push as ever
//!                     | full or drained: sealed: each object is checked, held and cleared
//!                     v
//!                  queue of the cache, oldest first, bounded by bytes and age
//!                     |
//!                     | too much
//!                     |------------.
//!                     |          slabs          still held
//!                     |------------'
//!                     | refill, in random order: checked again, let go
//!                     v
//!                  sheaf of the slot --pop--> alloc
//! ```
//!
//! An object is *held* (`Slab::hold`) from the moment it is sealed until it is about to be
//! allocated. So an object that is freed twice is found when the second free is sealed, however far
//! the first one has come.
//!
//! That second free may be in the sheaf of another slot, or with a thread that was preempted before
//! it has sealed such a sheaf. So what is in the queue is *confirmed* before it is released: the
//! sheaves of all slots are sealed, then all threads that have taken one before have sealed it, too
//! (they do both in one read section, and a grace period passes). One confirmation serves the older
//! half of the queue: a second free may also come after it, and wait in a slot while the object
//! leaves the queue. So as many other frees as the younger half has come before that.
//!
//! A thread that frees reaches its own slot only. If other slots have freed objects, the library's
//! thread confirms, and a thread that frees waits for it once there is twice as much as there may
//! be: a second, if nothing is confirmed meanwhile. From then on, until something is, all is
//! released without that.
//!
//! A second free of an object that has been let go frees what is in use, or about to be: it cannot
//! be told from a first one. The quarantine makes the time until then long.
//!
//! A fork whose handlers do not run may lose what a thread that is not in the child was moving.

mod enter;
mod queue;

use core::sync::atomic::{AtomicU32, Ordering};

use sheaves_percpu::internal::Cursor;
use sheaves_percpu::internal::slots::{self, attach};
use sheaves_rcu::Cookie;
use sheaves_rcu::internal;
use sheaves_sys::membarrier::Reach;
use sheaves_sys::{clock, fork, futex, tls};

use crate::moves::{flush, refill, registry, release, slot};
use crate::parts::pool;
use crate::records::{object_bytes, profile, secret};
use crate::space::cache_id::{CLASSES_MAX, CacheId};
use crate::space::chunk;
use crate::space::granule::is_watched;
use crate::space::hint::Hint;

use enter::{Run, hold, release_sheaf};
pub(crate) use enter::{add, admit_sheaf};
use queue::Surplus;
pub(crate) use queue::of;

/// Objects that may be too many, so that the next allocations take them.
const SPARE_MIN: usize = 16;
/// The library's thread is woken above this.
const MUCH_BYTES: usize = 64 << 10;

/// Puts one object into quarantine, checked at once.
pub(crate) fn free(id: CacheId, object: usize) {
    {
        let _section = sheaves_rcu::read();
        add(id, object);
    }
    flush_surplus(id);
}

/// Returns the objects of a sheaf to allocate from to their slabs.
pub(crate) fn put_back(id: CacheId, cursor: Cursor) {
    slot::untag(id, cursor);
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    return_unused(id, unsafe { cursor.objects() });
    pool::put_empty(cursor.sheaf());
}

/// Returns objects of any cache to their slabs that were taken and not allocated.
pub(crate) fn return_unused(id: CacheId, objects: &mut [usize]) {
    let shape = id.shape();
    let count = match shape.is_plain() {
        true => objects.len(),
        false => hold(id, shape, objects, |_, _| {}),
    };
    flush::flush(id, &mut objects[..count]);
}

/// Flushes what there is too much of. Not in a read section, which would delay that.
pub(crate) fn flush_surplus(id: CacheId) {
    let spare = id.descriptor().depot.sheaf_objects().max(SPARE_MIN);
    flush_surplus_of(id, spare, Reach::Quiet);
    let bytes = of(id).objects() * id.shape().stride;
    if bytes >= MUCH_BYTES {
        chunk::note_unused(bytes);
    }
}

fn flush_surplus_of(id: CacheId, spare: usize, reach: Reach) {
    while let Some(cursor) = take_surplus(id, spare, reach) {
        release_sheaf(id, cursor);
    }
}

/// Takes objects to allocate of which there are too many. They go through no slab.
pub(crate) fn take_ready(id: CacheId) -> Option<Cursor> {
    loop {
        let ready = make_ready(id, take_surplus(id, 0, Reach::Quiet)?);
        if ready.is_some() {
            return ready;
        }
    }
}

/// Makes the objects of a sheaf ready to be allocated, which the caller owns. `None` where some
/// went back to their slabs.
fn make_ready(id: CacheId, cursor: Cursor) -> Option<Cursor> {
    let shape = id.shape();
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    let objects = unsafe { cursor.objects() };
    // Those of watched slabs are for samples.
    let is_for_samples = profile::is_used() && objects.iter().any(|object| is_watched(*object));
    if is_for_samples || shape.is_hidden() {
        release_sheaf(id, cursor);
        return None;
    }
    let mut rest = &*objects;
    while !rest.is_empty() {
        let run = Run::first_of(id, shape, rest);
        run.slab.let_go(run.word, run.bits);
        rest = &rest[run.count..];
    }
    secret::shuffle(objects);
    objects.iter().for_each(|object| object_bytes::prepare(shape, *object, false));
    Some(cursor)
}

/// Takes the oldest sheaf if there are more than `spare` objects too many, or if it is too old. It
/// is confirmed, or there is twice as much as there may be and none can wait; and it is the
/// caller's.
fn take_surplus(id: CacheId, spare: usize, reach: Reach) -> Option<Cursor> {
    let now_ms = clock::coarse_ms();
    loop {
        match of(id).take_surplus(id, now_ms, spare) {
            Surplus::None => return None,
            Surplus::Oldest(cursor) => return Some(cursor),
            Surplus::Unconfirmed(awaited) if confirm(id, awaited, reach) => {}
            Surplus::Unconfirmed(_) if !of(id).has_twice(id, spare) => return None,
            Surplus::Unconfirmed(_) if reach == Reach::Quiet && wait_for_sweep() => {}
            Surplus::Unconfirmed(_) => return of(id).take_unconfirmed(),
        }
    }
}

/// Begins to confirm what is in the queue, or ends it. False if that takes some time yet.
fn confirm(id: CacheId, awaited: Option<(u64, Cookie)>, reach: Reach) -> bool {
    if let Some((count, cookie)) = awaited {
        start(cookie, reach);
        let has_passed = cookie.has_passed();
        if has_passed {
            of(id).note_confirmed(count);
            WAITED_SINCE_MS.set(0);
        }
        return has_passed;
    }
    // Without a slot nothing is sealed here.
    if !attach() {
        return false;
    }
    let count = of(id).fifo.lock().older_half();
    if !seal_slots(id, reach) {
        if reach == Reach::Quiet && !tls::is_single_threaded() && !internal::request_sweep() {
            chunk::note_sweep();
        }
        return false;
    }
    let cookie = Cookie::get();
    start(cookie, reach);
    of(id).fifo.lock().awaited.get_or_insert((count, cookie));
    true
}

/// Advances the grace period of a cookie, without waiting.
fn start(cookie: Cookie, reach: Reach) {
    if reach == Reach::Interrupts {
        cookie.start();
    } else if internal::start_quietly(cookie, false) {
        internal::request_membarrier();
    }
}

/// Changes with each [`sweep`].
static SWEEPS: AtomicU32 = AtomicU32::new(0);
/// When a thread first waited for one since something was confirmed; 0 if none has.
static WAITED_SINCE_MS: Hint = Hint::new(0);
/// How long threads wait since then: much longer than a busy machine needs to run all threads once.
const PATIENCE_MS: usize = 1000;
/// After that time a thread looks for itself.
const WAIT_NS: u64 = 10_000_000;

/// For the library's thread: confirms what other threads wait for.
pub(crate) fn sweep() {
    let sweep_one = |id: CacheId| {
        tick(id, Reach::Interrupts);
        !id.shape().is_plain()
    };
    let has_quarantines = registry::map_existing(sweep_one).fold(false, |any, has| any | has);
    release::arm_reclaimer_if_pending();
    if has_quarantines {
        // Relaxed: what it has confirmed is under locks.
        SWEEPS.fetch_add(1, Ordering::Relaxed);
        futex::wake_all(&SWEEPS);
    }
}

/// Waits for a sweep, for a moment. False if the thread cannot wait, or threads have waited in
/// vain.
#[cold]
fn wait_for_sweep() -> bool {
    // A thread that reads would wait for itself; the sweep waits for the locks that a fork holds.
    if sheaves_rcu::is_reading() || internal::is_reclaimer() || fork::is_in_progress_here() {
        return false;
    }
    // Relaxed: a count, which leads to nothing.
    let (seen, now_ms) = (SWEEPS.load(Ordering::Relaxed), clock::coarse_ms() as usize);
    let since_ms = match WAITED_SINCE_MS.get() {
        0 => now_ms,
        since_ms => since_ms,
    };
    if now_ms.saturating_sub(since_ms) >= PATIENCE_MS || !internal::request_sweep() {
        return false;
    }
    WAITED_SINCE_MS.set(since_ms);
    futex::wait_for(&SWEEPS, seen, WAIT_NS);
    true
}

/// Seals the freed objects of a cache in the slots in reach. Named caches have none there. False if
/// another slot has some.
fn seal_slots(id: CacheId, reach: Reach) -> bool {
    if usize::from(id.number()) > CLASSES_MAX {
        return true;
    }
    let [freed, _] = id.hardened_words();
    let _section = sheaves_rcu::read();
    let (taken, is_complete) = slots::take(&[freed], reach, slots::ALL);
    taken.for_each(|(_, cursor)| admit_sheaf(id, cursor));
    is_complete
}

/// For the keeper: flushes what is too much or too old. Returns the bytes that are too much yet.
pub(crate) fn tick(id: CacheId, reach: Reach) -> usize {
    if id.shape().is_plain() {
        return 0;
    }
    flush_surplus_of(id, 0, reach);
    of(id).surplus(id) * id.shape().stride
}

/// Flushes everything.
pub(crate) fn flush_queue(id: CacheId) {
    while let Some(cursor) = take_any(id) {
        release_sheaf(id, cursor);
    }
}

fn take_any(id: CacheId) -> Option<Cursor> {
    let mut fifo = of(id).fifo.lock();
    fifo.append_open();
    of(id).take_oldest(&mut fifo)
}

/// Flushes everything of all caches, when memory is out. True if there was something.
pub(crate) fn flush_every_queue() -> bool {
    let release = |id: CacheId| {
        let any = of(id).objects() != 0;
        flush_queue(id);
        any
    };
    let any = registry::map_existing(release).fold(false, |any, one| any | one);
    release::arm_reclaimer_if_pending();
    any
}

/// Takes one object from the slabs, or what is in quarantine if memory is out. Otherwise 0.
pub(crate) fn refill_one(id: CacheId) -> usize {
    let mut one = [0];
    if refill::refill(id, &mut one) == 0 && flush_every_queue() {
        refill::refill(id, &mut one);
    }
    one[0]
}

/// Checks that nothing was written to what is in quarantine, and flushes it, when the process
/// ends.
pub(crate) fn check(id: CacheId) {
    let shape = id.shape();
    while !shape.is_hidden()
        && let Some(cursor) = take_any(id)
    {
        // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
        let objects = unsafe { cursor.objects() };
        objects.iter().for_each(|object| object_bytes::check_free(shape, *object));
        release_sheaf(id, cursor);
    }
}
