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

mod queue;

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use sheaves_percpu::internal::slots::{self, Attached, attach};
use sheaves_percpu::internal::{Cursor, Sheaf};
use sheaves_rcu::Cookie;
use sheaves_rcu::internal;
use sheaves_sys::membarrier::Reach;
use sheaves_sys::{clock, futex, tls};

use crate::moves::{flush, refill, registry, slot};
use crate::parts::pool;
use crate::parts::shape::Shape;
use crate::records::{object_bytes, profile};
use crate::space::cache_id::{CLASSES_MAX, CacheId};
use crate::space::chunk;
use crate::space::granule::is_watched;
use crate::space::slab::Slab;

use queue::Surplus;
pub(crate) use queue::of;

/// Objects that may be too many, so that the next allocations take them.
const SPARE_MIN: usize = 16;
/// As much is worth a keeper.
const MUCH_BYTES: usize = 64 << 10;

/// Seals a sheaf of freed objects that the caller owns. If it was taken out of a slot, that was in
/// the read section that the caller is in.
pub(crate) fn seal(id: CacheId, cursor: Cursor) {
    let shape = id.shape();
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    let objects = unsafe { cursor.objects() };
    let count = admit(id, shape, objects);
    let cursor = cursor.down(objects.len() - count);
    if count == 0 {
        pool::put_empty(cursor.sheaf());
        return;
    }
    let quarantine = of(id);
    let mut fifo = quarantine.fifo.lock();
    quarantine.count(count as i32);
    fifo.append(cursor);
}

/// Puts one object into quarantine, checked at once.
pub(crate) fn free(id: CacheId, object: usize) {
    {
        let _section = sheaves_rcu::read();
        add(id, object);
    }
    release_surplus(id);
}

/// [`free`] in the caller's read section. The caller calls [`release_surplus`] after it.
pub(crate) fn add(id: CacheId, object: usize) {
    let shape = id.shape();
    if admit(id, shape, &mut [object]) == 0 {
        return;
    }
    let quarantine = of(id);
    let mut fifo = quarantine.fifo.lock();
    while !fifo.open.cursor().is_sheaf() {
        drop(fifo);
        let Some(sheaf) = pool::take_empty() else {
            // No memory for a sheaf: without quarantine.
            release(id, &mut [object]);
            return;
        };
        fifo = quarantine.fifo.lock();
        if fifo.open.cursor().is_sheaf() {
            pool::put_empty(sheaf);
        } else {
            fifo.open.set(pool::format(sheaf, shape.sheaf_objects.min(Sheaf::OBJECTS_MAX)));
        }
    }
    // SAFETY: the lock's holder owns the open sheaf, which is not full.
    let pushed = unsafe { fifo.open.cursor().push(object) };
    fifo.open.set(pushed);
    quarantine.count(1);
    if pushed.is_full() {
        fifo.append_open();
    }
}

/// Moves the objects that are `wanted` to the front, in their order; returns how many there are.
fn keep(objects: &mut [usize], mut wanted: impl FnMut(usize) -> bool) -> usize {
    let mut count = 0;
    for index in 0..objects.len() {
        if wanted(objects[index]) {
            objects[count] = objects[index];
            count += 1;
        }
    }
    count
}

/// Checks objects that are freed, holds and clears them: sorted at the front; returns their number.
/// Those that are held already are reported.
fn admit(id: CacheId, shape: &Shape, objects: &mut [usize]) -> usize {
    hold(id, shape, objects, |object, index| {
        object_bytes::check_canaries(shape, object, index > 0);
        object_bytes::clear(shape, object);
    })
}

/// Holds objects, and calls `visit` with each and its index: sorted at the front; returns their
/// number. Those that are held already are reported. Aborts the process if no object of the cache
/// starts at an address.
fn hold(
    id: CacheId,
    shape: &Shape,
    objects: &mut [usize],
    mut visit: impl FnMut(usize, usize),
) -> usize {
    objects.sort_unstable();
    let (mut next, mut count) = (0, 0);
    while next < objects.len() {
        let run = Run::first_of(id, shape, &objects[next..]);
        let before = run.slab.hold(run.word, run.bits);
        for place in next..next + run.count {
            let object = objects[place];
            let Some(index) = shape.index_of(object - run.start) else { continue };
            if before >> (index % 64) & 1 == 0 {
                visit(object, index);
                objects[count] = object;
                count += 1;
            } else {
                report_double_free(shape, object);
            }
        }
        next += run.count;
    }
    count
}

/// Objects that have their bits in one word of a slab.
struct Run {
    slab: &'static Slab,
    /// The address of the slab's first object.
    start: usize,
    word: usize,
    bits: u64,
    count: usize,
}

impl Run {
    /// The run that objects begin with: as many as are different and in the same word. Aborts the
    /// process if no object of the cache starts at the first address.
    fn first_of(id: CacheId, shape: &Shape, objects: &[usize]) -> Run {
        let (slab, first) = flush::find(id, objects[0]);
        let (start, word) = (objects[0] - first * shape.stride, first / 64);
        let mut run = Run { slab, start, word, bits: 0, count: 0 };
        for object in objects {
            match shape.index_of(object.wrapping_sub(start)) {
                Some(index) if index / 64 == word && run.bits >> (index % 64) & 1 == 0 => {
                    run.bits |= 1 << (index % 64);
                    run.count += 1;
                }
                _ => break,
            }
        }
        run
    }
}

#[cold]
fn report_double_free(shape: &Shape, object: usize) {
    let (name, size) = (shape.name(), shape.size);
    object_bytes::found(format_args!(
        "double free of {object:#x}, an object of cache {name} (size {size})"
    ));
}

/// Returns the objects of a sheaf to allocate from to their slabs.
pub(crate) fn put_back(id: CacheId, cursor: Cursor) {
    slot::clean(id, cursor);
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

/// Releases what there is too much of. Not in a read section, which would delay that.
pub(crate) fn release_surplus(id: CacheId) {
    let spare = id.descriptor().depot.sheaf_objects().max(SPARE_MIN);
    release_surplus_of(id, spare, Reach::Quiet);
    let bytes = of(id).objects() * id.shape().stride;
    if bytes >= MUCH_BYTES {
        chunk::note_unused(bytes);
    }
}

fn release_surplus_of(id: CacheId, spare: usize, reach: Reach) {
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
    object_bytes::shuffle(objects);
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
            // Relaxed: see `wait_for_sweep`.
            WAITED_SINCE_MS.store(0, Ordering::Relaxed);
        }
        return has_passed;
    }
    // Without a slot nothing is sealed here.
    if attach() == Attached::No {
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
        internal::request_fence();
    }
}

/// Changes with each [`sweep`].
static SWEEPS: AtomicU32 = AtomicU32::new(0);
/// When a thread first waited for one since something was confirmed; 0 if none has.
static WAITED_SINCE_MS: AtomicU64 = AtomicU64::new(0);
/// How long threads wait since then: much longer than a busy machine needs to run all threads once.
const PATIENCE_MS: u64 = 1000;
/// After that time a thread looks for itself.
const WAIT_NS: u64 = 10_000_000;

/// For the library's thread: confirms what other threads wait for.
pub(crate) fn sweep() {
    registry::map_existing(|id| age(id, Reach::Interrupts)).for_each(drop);
    refill::arm_reclaimer_if_pending();
    // Relaxed: what it has confirmed is under locks.
    SWEEPS.fetch_add(1, Ordering::Relaxed);
    futex::wake_all(&SWEEPS);
}

/// Waits for a sweep, for a moment. False if the thread cannot wait, or threads have waited in
/// vain.
#[cold]
fn wait_for_sweep() -> bool {
    // A thread that reads would wait for itself.
    if sheaves_rcu::is_reading() || internal::is_reclaimer() {
        return false;
    }
    // Relaxed, here and below: times and counts, which lead to nothing.
    let (seen, now_ms) = (SWEEPS.load(Ordering::Relaxed), clock::coarse_ms());
    let since_ms = match WAITED_SINCE_MS.load(Ordering::Relaxed) {
        0 => now_ms,
        since_ms => since_ms,
    };
    if now_ms.saturating_sub(since_ms) >= PATIENCE_MS || !internal::request_sweep() {
        return false;
    }
    WAITED_SINCE_MS.store(since_ms, Ordering::Relaxed);
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
    taken.for_each(|(_, cursor)| seal(id, cursor));
    is_complete
}

/// For the keeper: releases what is too much or too old. Returns the bytes that are too much yet.
pub(crate) fn age(id: CacheId, reach: Reach) -> usize {
    if id.shape().is_plain() {
        return 0;
    }
    release_surplus_of(id, 0, reach);
    of(id).surplus(id) * id.shape().stride
}

/// Releases everything.
pub(crate) fn release_all(id: CacheId) {
    while let Some(cursor) = take_any(id) {
        release_sheaf(id, cursor);
    }
}

fn take_any(id: CacheId) -> Option<Cursor> {
    let mut fifo = of(id).fifo.lock();
    fifo.append_open();
    of(id).take_oldest(&mut fifo)
}

/// Releases everything of all caches, when memory is out. True if there was something.
pub(crate) fn release_everything() -> bool {
    let release = |id: CacheId| {
        let any = of(id).objects() != 0;
        release_all(id);
        any
    };
    let any = registry::map_existing(release).fold(false, |any, one| any | one);
    refill::arm_reclaimer_if_pending();
    any
}

/// Takes one object from the slabs, or what is in quarantine if memory is out. Otherwise 0.
pub(crate) fn refill_one(id: CacheId) -> usize {
    let mut one = [0];
    if refill::refill(id, &mut one) == 0 && release_everything() {
        refill::refill(id, &mut one);
    }
    one[0]
}

fn release_sheaf(id: CacheId, cursor: Cursor) {
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    release(id, unsafe { cursor.objects() });
    pool::put_empty(cursor.sheaf());
}

/// Returns objects to their slabs. What the kernel does not make accessible again is lost.
fn release(id: CacheId, objects: &mut [usize]) {
    let shape = id.shape();
    let count = keep(objects, |object| object_bytes::make_accessible(shape, object));
    flush::flush(id, &mut objects[..count]);
}

/// Checks that nothing was written to what is in quarantine, and releases it, when the process
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
