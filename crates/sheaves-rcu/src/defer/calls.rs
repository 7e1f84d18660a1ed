//! Deferred calls: a buffer in each slot, sealed buffers in queues.
//!
//! ```text
//!   call_rcu --push--> buffer of the slot, without a cookie
//!                        | full, drained, or old: sealed, *then* given a cookie
//!                        v
//!                      queue of sealed buffers, oldest first
//!                        | cookie passed
//!                        v
//!                      the driver runs the calls
//! ```
//!
//! The common case is a push of the head's address, as `free` does it. A buffer is a sheaf of
//! [`CAPACITY`] heads; the driver is woken for every [`START_SHEAVES`] of them, 2,000 calls.
//! Several small buffers rather than one of 16 KiB: what a slot has begun costs 1 KiB, and the
//! transaction is the one there is. A call costs 2 ns with the exchange for each 123 (example
//! `defer_cost`, 1,000 calls by one thread, best round, Zen 4).
//!
//! Heads that find no buffer, because there is no memory or the thread has no slot, are linked by
//! themselves (`linked`): that needs nothing.
//!
//! In which order calls run: those that are pushed in one slot in the order in which they were
//! pushed, so those of a thread in its order while it stays in its slot. Two things may break that:
//! a thread that is moved at the very moment when it begins a buffer begins it with the queue of
//! the slot that it left; and linked heads wait by themselves. Who needs order takes a barrier.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_percpu::Word;
use sheaves_percpu::area::Region;
use sheaves_percpu::engine::{self, Access, cmp_store, load, push, push_slow};
use sheaves_percpu::sheaf::{ENTRIES, SHEAF_BYTES, VACANT, base, is_full};
use sheaves_percpu::slots::{self, Attached, attach};
use sheaves_sys::lock::{Held, Lock};

use super::head::{Call, Head};
use super::linked::Linked;
use super::pool::SHEAVES;
use super::pressure::{self, Pressure};
use super::queue::{Batch, HEADER_WORDS, Queue};
use super::sink::Pending;
use super::{emergency, reclaimer, round, watch, workers};
use crate::cookie::Cookie;

/// The word of each slot that holds its buffer; there from the start.
const WORD: Word = Region::CALLS.word(0);
/// The entry below the first head.
const SENTINEL: usize = HEADER_WORDS;
/// Heads of a buffer.
const CAPACITY: usize = ENTRIES - 1 - SENTINEL;
/// After so many sealed buffers of a shard a grace period is started and the driver woken.
const START_SHEAVES: u32 = (2000 / CAPACITY) as u32;
/// So many linked heads do the same.
const START_HEADS: usize = 2000;
/// What one call counts for: its head. What hangs on it is not known.
const CALL_BYTES: usize = size_of::<Head>();
/// Queues, to which slots are dealt.
pub(super) const SHARDS: usize = 16;
/// How often a push starts over because other threads changed the slot under it.
const ATTEMPTS: u32 = 16;

const _: () = {
    assert!(SENTINEL + 1 + CAPACITY == ENTRIES && CAPACITY == 123);
    assert!(size_of::<Batch>() == SENTINEL * 8);
};

/// What a shard's lock guards.
struct Waiting {
    queue: Queue,
    /// Buffers since a grace period was last started.
    unstarted: u32,
    linked: Linked,
}

/// On cache lines of its own.
#[repr(align(128))]
struct Shard {
    waiting: Lock<Waiting>,
    /// Calls in the queue and in the lists; changes under the lock.
    calls: AtomicUsize,
    /// Those of them that are linked.
    linked: AtomicUsize,
}

static ALL: [Shard; SHARDS] = [const {
    let waiting = Waiting { queue: Queue::new(), unstarted: 0, linked: Linked::new() };
    Shard { waiting: Lock::new(waiting), calls: AtomicUsize::new(0), linked: AtomicUsize::new(0) }
}; SHARDS];

/// Calls `call` with `head` once the readers of now are gone.
///
/// About as long as a `free`: no atomic instruction, no lock, nothing woken, nothing allocated.
/// Where it runs, in which order and when: see [`super`]. Never blocks on anything but short locks,
/// also inside of a read section; not for signal handlers.
///
/// A head that is queued already is reported in one line, and not queued again.
///
/// # Safety
/// `head` is valid, zero or idle, and nobody but readers uses the object in which it lies until the
/// call. `call` may be called with it in another thread.
#[inline]
pub unsafe fn call_rcu(head: *mut Head, call: Call) {
    // SAFETY: valid by the contract.
    let place = unsafe { &*head };
    if !place.claim(call as *const () as usize) {
        return;
    }
    // SAFETY: a head is aligned to 8, so its address is even, and it is ours until it is called.
    if !unsafe { push(Access::get(), WORD, head.expose_provenance()) } {
        call_slow(head);
    }
}

/// [`call_rcu`], not lazy: what is deferred now is sealed at once and taken back as soon as its
/// readers are gone. Wakes the reclaimer, and interrupts the processors.
///
/// # Safety
/// As [`call_rcu`].
pub unsafe fn call_hurry(head: *mut Head, call: Call) {
    // SAFETY: the same contract.
    unsafe { call_rcu(head, call) };
    super::flush();
}

/// Defers a claimed head when the fast path found no room.
#[cold]
#[inline(never)]
fn call_slow(head: *mut Head) {
    for _ in 0..ATTEMPTS {
        if attach() == Attached::No {
            break;
        }
        // SAFETY: as in `call_rcu`.
        if unsafe { push_slow(WORD, head.addr()) } {
            return;
        }
        match exchange(head.addr()) {
            Exchange::Done => return,
            Exchange::Again => {}
            Exchange::NoMemory => {
                emergency::reach(emergency::LINKED);
                break;
            }
        }
    }
    link(head);
}

enum Exchange {
    Done,
    Again,
    NoMemory,
}

/// An empty buffer with the head in it takes the place of the full one, which is sealed.
fn exchange(head: usize) -> Exchange {
    let before = load(WORD);
    let is_full_one = is_buffer(before) && is_full(before);
    if before != VACANT.get() && !is_full_one {
        return Exchange::Again;
    }
    let Some(empty) = SHEAVES.take() else { return Exchange::NoMemory };
    let number = here();
    let cursor = format(empty, number, head);
    let shard = &ALL[number];
    // From before the exchange on, so that nobody seals the new one before the old one.
    let mut waiting = shard.waiting.lock();
    // SAFETY: `before` is not the bootstrap cursor; the buffer and the head in it are ours.
    if !unsafe { cmp_store(WORD, before, cursor) } {
        drop(waiting);
        // SAFETY: taken above, in no word.
        unsafe { SHEAVES.give(empty) };
        return Exchange::Again;
    }
    let sealed = is_full_one.then(|| seal(shard, &mut waiting, before));
    drop(waiting);
    pressure::arm();
    if let Some(sealed) = sealed {
        after_seal(sealed);
    }
    Exchange::Done
}

/// A buffer with one head in it: its cursor. The sentinel says which shard it belongs to.
fn format(sheaf: usize, shard: usize, head: usize) -> usize {
    let entries = with_exposed_provenance_mut::<[usize; 2]>(sheaf + SENTINEL * 8);
    // SAFETY: two entries of a sheaf of ours.
    unsafe { entries.write([shard << 1 | 1, head]) };
    sheaf + (SENTINEL + 1) * 8
}

/// The shard that a buffer belongs to, which the caller has taken out of its slot.
fn shard_of(cursor: usize) -> usize {
    let sentinel = with_exposed_provenance_mut::<usize>(base(cursor) + SENTINEL * 8);
    // SAFETY: the buffer is ours.
    unsafe { sentinel.read() >> 1 }
}

/// Is it a cursor into a buffer, not one of the constants?
fn is_buffer(cursor: usize) -> bool {
    cursor != VACANT.get()
        && cursor != sheaves_percpu::sheaf::BOOTSTRAP.get()
        && cursor.is_multiple_of(8)
        && cursor >= SHEAF_BYTES
}

/// Number of the shard of the calling thread's slot.
fn here() -> usize {
    usize::try_from(engine::current_slot()).unwrap_or(0) % SHARDS
}

/// Something was sealed.
#[derive(Clone, Copy)]
struct Sealed {
    cookie: Cookie,
    /// It is time for a grace period.
    is_time: bool,
}

/// Seals a buffer that the caller has taken out of a slot's word, under its shard's lock.
fn seal(shard: &Shard, waiting: &mut Waiting, cursor: usize) -> Sealed {
    let end = cursor % SHEAF_BYTES / 8 + 1;
    let count = end - SENTINEL - 1;
    let (begin, bytes) = (SENTINEL + 1, count * CALL_BYTES);
    // SAFETY: the buffer is ours, the heads up to the cursor are written, and no push can find it.
    let cookie = unsafe { waiting.queue.append(base(cursor), begin, end, bytes) };
    waiting.unstarted += 1;
    let is_time = waiting.unstarted >= START_SHEAVES;
    if is_time {
        waiting.unstarted = 0;
    }
    // Relaxed: changes under the lock.
    shard.calls.fetch_add(count, Ordering::Relaxed);
    pressure::note_sealed(count, bytes);
    Sealed { cookie, is_time }
}

/// What sealing something leads to, without the lock.
fn after_seal(Sealed { cookie, is_time }: Sealed) {
    let pressure = pressure::after_seal();
    if pressure >= Pressure::High {
        cookie.start_expedited();
    } else if is_time || pressure == Pressure::Soft {
        cookie.start();
    }
    if is_time {
        reclaimer::ring(reclaimer::READY);
    }
    watch::look();
}

/// Defers a claimed head by linking it.
fn link(head: *mut Head) {
    let shard = &ALL[here()];
    let mut waiting = shard.waiting.lock();
    // SAFETY: valid, claimed, and on no list.
    let (count, _) = unsafe { waiting.linked.push(head, CALL_BYTES) };
    // Relaxed, both: change under the lock.
    shard.calls.fetch_add(1, Ordering::Relaxed);
    shard.linked.fetch_add(1, Ordering::Relaxed);
    let sealed = if count >= START_HEADS { waiting.linked.seal() } else { None };
    drop(waiting);
    pressure::arm();
    if let Some(cookie) = sealed {
        after_seal(Sealed { cookie, is_time: true });
    }
}

/// Seals the buffers of all slots, and the lists. Grace periods are left to the caller. False where
/// a slot was not reached.
pub(super) fn seal_all() -> bool {
    // All locks: what is pushed meanwhile cannot get into a queue before what is taken here.
    let mut held: [Held<'_, Waiting>; SHARDS] = core::array::from_fn(|at| ALL[at].waiting.lock());
    let is_complete = slots::drain(&[WORD], &mut |_, cursor| {
        let number = shard_of(cursor);
        seal(&ALL[number], &mut held[number], cursor);
    });
    for waiting in &mut held {
        let _ = waiting.linked.seal();
    }
    is_complete
}

/// Runs everything whose cookie has passed; true if there was something. For the driver.
pub(super) fn run_ready() -> bool {
    workers::run_ready().unwrap_or_else(|| run_shards(watch::DRIVER, 0, 1))
}

/// Runs what is ready of the shards of a worker, one of so many.
pub(super) fn run_share(number: usize, count: usize) {
    run_shards(watch::WORKERS + number, number, count);
    round::refuse_open_section();
}

/// Has a worker, one of so many, something to run?
pub(super) fn has_ready(number: usize, count: usize) -> bool {
    ALL.iter().skip(number).step_by(count).any(|shard| {
        // Relaxed: a hint that spares the lock.
        shard.calls.load(Ordering::Relaxed) != 0 && shard.waiting.lock().has_ready()
    })
}

/// Runs what is ready in every so manieth shard; true if there was something.
fn run_shards(runner: usize, first: usize, step: usize) -> bool {
    let mut any = false;
    for shard in ALL.iter().skip(first).step_by(step) {
        // Relaxed: a hint that spares the lock.
        if shard.calls.load(Ordering::Relaxed) == 0 {
            continue;
        }
        while let Some(sheaf) = shard.ready() {
            shard.run(runner, sheaf);
            any = true;
        }
        while let Some(head) = shard.pop_ready() {
            run_head(runner, head);
            any = true;
        }
    }
    watch::end(runner);
    any
}

impl Waiting {
    fn has_ready(&self) -> bool {
        self.queue.ready().is_some() || self.linked.has_ready()
    }
}

impl Shard {
    fn ready(&self) -> Option<usize> {
        self.waiting.lock().queue.ready()
    }

    /// Runs the calls of the oldest buffer, which has passed.
    fn run(&self, runner: usize, sheaf: usize) {
        let batch = with_exposed_provenance_mut::<Batch>(sheaf);
        // SAFETY: the batch is in front; the driver alone, or the worker of the shard while the
        // driver waits for it, changes how far it has come.
        while let Some(index) = unsafe { Batch::advance(batch) } {
            let entry = with_exposed_provenance_mut::<usize>(sheaf + index * 8);
            // SAFETY: an entry that was written before the buffer was sealed.
            let head = unsafe { entry.read() };
            run_head(runner, with_exposed_provenance_mut(head));
        }
        // SAFETY: as above.
        let count = unsafe { (*batch).count } as usize;
        let mut waiting = self.waiting.lock();
        waiting.queue.remove_first();
        // Relaxed: changes under the lock.
        self.calls.fetch_sub(count, Ordering::Relaxed);
        pressure::note_reclaimed(count, count * CALL_BYTES);
        drop(waiting);
        // SAFETY: from the pool; in no word and in no queue.
        unsafe { SHEAVES.give(sheaf) };
    }

    fn count_again(&self, waiting: &mut Waiting) {
        let (calls, bytes) = waiting.queue.recover();
        let [(sealed, sealed_bytes), (linked, _)] = waiting.linked.counts();
        // Relaxed, both: change under the lock.
        self.calls.store(calls + linked, Ordering::Relaxed);
        self.linked.store(linked, Ordering::Relaxed);
        pressure::note_sealed(calls + sealed, bytes + sealed_bytes);
    }

    /// Takes a linked head whose cookie has passed.
    fn pop_ready(&self) -> Option<*mut Head> {
        // Relaxed: a hint that spares the lock.
        if self.linked.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut waiting = self.waiting.lock();
        let (head, bytes) = waiting.linked.pop_ready()?;
        // Relaxed, both: change under the lock.
        self.calls.fetch_sub(1, Ordering::Relaxed);
        self.linked.fetch_sub(1, Ordering::Relaxed);
        pressure::note_reclaimed(1, bytes);
        Some(head)
    }
}

/// Runs a call whose readers are gone.
fn run_head(runner: usize, head: *mut Head) {
    // SAFETY: valid until it is called, by the contract of `call_rcu`.
    let Some(call) = (unsafe { (*head).finish() }) else { return };
    watch::begin(runner, call);
    let function = core::ptr::with_exposed_provenance::<()>(call);
    // SAFETY: the address is that of a function of this type, from `call_rcu`.
    let function = unsafe { core::mem::transmute::<*const (), Call>(function) };
    // SAFETY: readers are gone; the contract of `call_rcu` is the function's.
    unsafe { function(head) };
}

/// What waits, those without a cookie included; and those of them that are linked.
pub(super) fn pending() -> (Pending, Pending) {
    let mut count = 0;
    slots::observe(&[WORD], &mut |_, cursor| {
        // The cursor of a buffer, or a constant, which is on its sentinel.
        count += if is_buffer(cursor) { cursor % SHEAF_BYTES / 8 - SENTINEL } else { 0 };
    });
    let mut linked = 0;
    for shard in &ALL {
        // Relaxed, both: statistics.
        count += shard.calls.load(Ordering::Relaxed);
        linked += shard.linked.load(Ordering::Relaxed);
    }
    let of = |count: usize| Pending { objects: count as u64, bytes: (count * CALL_BYTES) as u64 };
    (of(count - linked.min(count)), of(linked))
}

/// Takes all locks for a fork.
pub(super) fn acquire() {
    ALL.iter().for_each(|shard| shard.waiting.acquire());
}

/// The same in a child whose fork has not prepared: counts what waits again. Where a thread that is
/// not there was changing a shard, the heads that are linked in it are lost.
pub(super) fn recover() {
    for shard in &ALL {
        shard.waiting.acquire_to_recover(|waiting| waiting.linked = Linked::new());
        if shard.waiting.is_held_for_fork() {
            shard.count_again(&mut shard.waiting.lock());
        }
    }
}

/// Gives them back.
///
/// # Safety
/// Taken by [`acquire`] in the thread that forked.
pub(super) unsafe fn release() {
    for shard in &ALL {
        // SAFETY: the same contract.
        unsafe { shard.waiting.release() };
    }
}
