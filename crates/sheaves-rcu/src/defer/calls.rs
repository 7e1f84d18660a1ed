//! Deferred callbacks: a buffer in each slot, and queues of sealed buffers.
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
//! The fast path pushes the head's address, as `free` does. A buffer is a sheaf of [`CAPACITY`]
//! heads; the driver is woken for every [`START_SHEAVES`] of them, 2,000 callbacks. Several small
//! buffers are better than one of 16 KiB: a partial buffer costs 1 KiB per slot, and the
//! restartable sequence of other sheaves serves here, too. A callback costs 2 ns, including the
//! exchange of the buffer after every 123 (example `defer_cost`, 1,000 callbacks by one thread,
//! best round, Zen 4).
//!
//! Heads that find no buffer, because memory is out or the thread has no slot, are linked
//! (`linked`), which needs no memory.
//!
//! Order: callbacks that are pushed in one slot run in the order in which they were pushed, so
//! those of a thread run in its order while it stays in its slot. There are two exceptions. A
//! thread that is moved at the very moment when it begins a buffer begins it with the queue of the
//! slot that it left. And linked heads wait separately. A program that needs an order calls
//! `barrier`.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_percpu::area::Region;
use sheaves_percpu::engine::{self, Access, cmp_store, load, push, push_slow};
use sheaves_percpu::slots::{self, Attached, attach};
use sheaves_percpu::{Cursor, Sheaf, Word};
use sheaves_sys::lock::{Held, Lock};

use super::head::{Call, Head};
use super::linked::Linked;
use super::pool::SHEAVES;
use super::pressure::{self, Pressure};
use super::queue::{Batch, HEADER_WORDS, Queue};
use super::sink::Pending;
use super::{emergency, reclaimer, round, watch, workers};
use crate::cookie::Cookie;

/// The word of each slot that holds its buffer.
const WORD: Word = Region::CALLS.word(0);
/// The entry below the first head.
const SENTINEL: usize = HEADER_WORDS;
/// Heads that fit into a buffer.
const CAPACITY: usize = Sheaf::OBJECTS_MAX - SENTINEL;
/// Number of sealed buffers of a shard after which a grace period is started and the driver woken.
const START_SHEAVES: u32 = (2000 / CAPACITY) as u32;
/// Number of linked heads after which the same is done.
const START_HEADS: usize = 2000;
/// The bytes that one callback counts for: its head. The size of its object is not known.
const CALL_BYTES: usize = size_of::<Head>();
/// Number of queues, over which slots are distributed.
pub(super) const SHARDS: usize = 16;
/// How often a push starts over because other threads have changed the slot meanwhile.
const ATTEMPTS: u32 = 16;

const _: () = {
    assert!(CAPACITY == 123);
    assert!(size_of::<Batch>() == SENTINEL * 8);
};

/// Protected by a shard's lock.
struct Waiting {
    queue: Queue,
    /// Buffers sealed since a grace period was last started.
    unstarted: u32,
    linked: Linked,
}

/// On cache lines of its own.
#[repr(align(128))]
struct Shard {
    waiting: Lock<Waiting>,
    /// Callbacks in the queue and in the lists; changes under the lock.
    calls: AtomicUsize,
    /// How many of them are linked.
    linked: AtomicUsize,
}

static ALL: [Shard; SHARDS] = [const {
    let waiting = Waiting { queue: Queue::new(), unstarted: 0, linked: Linked::new() };
    Shard { waiting: Lock::new(waiting), calls: AtomicUsize::new(0), linked: AtomicUsize::new(0) }
}; SHARDS];

/// Calls `call` with `head` after a grace period, like the kernel's function of this name.
///
/// Costs about as much as a `free`: no atomic instruction, no lock, no wakeup, no allocation.
/// [`super`] says in which thread, in which order and when the callback runs. Blocks on short locks
/// only, also inside a read section. Not for signal handlers.
///
/// A head that is queued already is reported in one line, and not queued again.
///
/// # Safety
/// `head` is valid, zero or idle, and only readers use the object that contains it until the call.
/// `call` may be called with it in another thread.
#[inline]
pub unsafe fn call_rcu(head: *mut Head, call: Call) {
    // SAFETY: valid by the contract.
    let place = unsafe { &*head };
    if !place.claim(call as *const () as usize) {
        return;
    }
    // SAFETY: a head is aligned to 8, so its address is even; it belongs to this crate until it is
    // called.
    if !unsafe { push(Access::get(), WORD, head.expose_provenance()) } {
        call_slow(head);
    }
}

/// [`call_rcu`], not lazy (the kernel's `call_rcu_hurry`): what is deferred now is sealed at once,
/// and reclaimed as soon as a grace period has passed. Wakes the reclaimer, and interrupts the
/// CPUs.
///
/// # Safety
/// As [`call_rcu`].
pub unsafe fn call_hurry(head: *mut Head, call: Call) {
    // SAFETY: the same contract.
    unsafe { call_rcu(head, call) };
    super::flush();
}

/// Defers a claimed head after the fast path found no room.
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

/// Replaces the full buffer by an empty one with the head in it, and seals the full one.
fn exchange(head: usize) -> Exchange {
    let before = load(WORD);
    if before == Cursor::BOOTSTRAP || !before.is_full() {
        return Exchange::Again;
    }
    let Some(empty) = SHEAVES.take() else { return Exchange::NoMemory };
    let number = here();
    let cursor = format(empty, number, head);
    let shard = &ALL[number];
    // Held from before the exchange on, so that the new buffer is not sealed before the old one.
    let mut waiting = shard.waiting.lock();
    // SAFETY: `before` is not the bootstrap cursor; the buffer and the head in it belong to this
    // function.
    if !unsafe { cmp_store(WORD, before, cursor) } {
        drop(waiting);
        // SAFETY: taken above, and in no word.
        unsafe { SHEAVES.give(empty) };
        return Exchange::Again;
    }
    let sealed = before.is_sheaf().then(|| seal(shard, &mut waiting, before));
    drop(waiting);
    pressure::arm();
    if let Some(sealed) = sealed {
        after_seal(sealed);
    }
    Exchange::Done
}

/// Writes the first head into a buffer and returns its cursor. The sentinel names its shard.
fn format(unit: usize, shard: usize, head: usize) -> Cursor {
    // SAFETY: a unit of the pool is a sheaf, which belongs to this function.
    let sheaf = unsafe { Sheaf::at(unit) };
    // SAFETY: as above; the only reference to these entries.
    unsafe { sheaf.entries(SENTINEL..SENTINEL + 2) }.copy_from_slice(&[shard << 1 | 1, head]);
    sheaf.cursor(SENTINEL + 1)
}

/// The shard of a buffer that the caller has taken out of its slot.
fn shard_of(cursor: Cursor) -> usize {
    // SAFETY: the buffer belongs to the caller.
    unsafe { cursor.sheaf().cursor(SENTINEL).last() >> 1 }
}

/// Number of the shard of the calling thread's slot.
fn here() -> usize {
    usize::try_from(engine::current_slot()).unwrap_or(0) % SHARDS
}

/// What `seal` has done.
#[derive(Clone, Copy)]
struct Sealed {
    cookie: Cookie,
    /// It is time for a grace period.
    is_time: bool,
}

/// Seals a buffer that the caller has taken out of a slot's word, under its shard's lock.
fn seal(shard: &Shard, waiting: &mut Waiting, cursor: Cursor) -> Sealed {
    let end = cursor.index() + 1;
    let count = end - SENTINEL - 1;
    let (begin, bytes) = (SENTINEL + 1, count * CALL_BYTES);
    // SAFETY: the buffer belongs to the caller, the heads up to the cursor are written, and no push
    // can find it.
    let cookie = unsafe { waiting.queue.append(cursor.sheaf().address(), begin, end, bytes) };
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

/// What follows sealing, without the lock.
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

/// Seals the buffers of all slots, and the lists. Starts no grace period. False where a slot was
/// not reached.
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

/// Runs everything whose cookie has passed; true if something was run. For the driver.
pub(super) fn run_ready() -> bool {
    workers::run_ready().unwrap_or_else(|| run_shards(watch::DRIVER, 0, 1))
}

/// Runs what is ready in the shards of worker `number` of `count`.
pub(super) fn run_share(number: usize, count: usize) {
    run_shards(watch::WORKERS + number, number, count);
    round::refuse_open_section();
}

/// True if worker `number` of `count` has something to run.
pub(super) fn has_ready(number: usize, count: usize) -> bool {
    ALL.iter().skip(number).step_by(count).any(|shard| {
        // Relaxed: a hint that saves the lock.
        shard.calls.load(Ordering::Relaxed) != 0 && shard.waiting.lock().has_ready()
    })
}

/// Runs what is ready in every `step`-th shard from `first` on; true if something was.
fn run_shards(runner: usize, first: usize, step: usize) -> bool {
    let mut any = false;
    for shard in ALL.iter().skip(first).step_by(step) {
        // Relaxed: a hint that saves the lock.
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

    /// Runs the callbacks of the oldest buffer, whose cookie has passed.
    fn run(&self, runner: usize, sheaf: usize) {
        let batch = with_exposed_provenance_mut::<Batch>(sheaf);
        // SAFETY: the batch is at the front. Only the driver advances it, or the worker of the
        // shard while the driver waits for it.
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
        // Relaxed: a hint that saves the lock.
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

/// Runs a callback whose grace period has passed.
fn run_head(runner: usize, head: *mut Head) {
    // SAFETY: valid until it is called, by the contract of `call_rcu`.
    let Some(call) = (unsafe { (*head).finish() }) else { return };
    watch::begin(runner, call);
    let function = core::ptr::with_exposed_provenance::<()>(call);
    // SAFETY: the address is that of a function of this type, from `call_rcu`.
    let function = unsafe { core::mem::transmute::<*const (), Call>(function) };
    // SAFETY: a grace period has passed; the contract of `call_rcu` is the function's.
    unsafe { function(head) };
}

/// What is pending, including callbacks without a cookie; and how much of it is linked.
pub(super) fn pending() -> (Pending, Pending) {
    let mut count = 0;
    slots::observe(&[WORD], &mut |_, cursor| {
        count += cursor.index() - SENTINEL;
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

/// [`acquire`] in the child of a fork that ran no `prepare` handler: counts again what is pending.
/// If a thread that does not exist here was changing a shard, the heads that are linked in it are
/// lost.
pub(super) fn recover() {
    for shard in &ALL {
        let forget_linked = |waiting: &mut Waiting| waiting.linked = Linked::new();
        if let Some(mut waiting) = shard.waiting.acquire_to_recover(forget_linked) {
            shard.count_again(&mut waiting);
        }
    }
}

/// Releases them.
///
/// # Safety
/// Taken by [`acquire`] in the thread that forked.
pub(super) unsafe fn release() {
    for shard in &ALL {
        // SAFETY: the same contract.
        unsafe { shard.waiting.release() };
    }
}
