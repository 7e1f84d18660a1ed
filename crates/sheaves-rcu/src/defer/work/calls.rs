//! Deferred calls: a sheaf of heads in each slot, and shards of sealed ones.
//!
//! ```text
//!   call_rcu --push--> sheaf of the slot, without a cookie
//!                        | full, drained, or old: sealed, *then* given a cookie
//!                        v
//!                      queue of sealed sheaves, oldest first
//!                        | cookie passed
//!                        v
//!                      the driver runs the calls
//! ```
//!
//! The driver is woken for every [`START_CALLS`] callbacks. Example `defer_cost` measures one.
//!
//! Order: callbacks that are pushed in one slot run in that order, with two exceptions. A sheaf
//! that a thread begins or seals while it is moved goes to the queue of the slot that it has left.
//! And linked heads wait separately.

use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::Ordering;

use sheaves_percpu::internal::{Cursor, Region, Sheaf, Word, cmp_store, current_slot, load, slots};
use sheaves_sys::lock::Held;
use sheaves_sys::membarrier::Reach;
use sheaves_sys::{report, sandbox, tsan};

use super::bell::{self, FLUSH, READY};
use super::follow::{self, Turn};
use super::watch;
use crate::defer::store::emergency;
use crate::defer::store::extents::SHEAVES;
use crate::defer::store::shard::{self, Batch, CAPACITY, Pending, SENTINEL, Shard, Waiting};
use crate::grace::cookie::Cookie;
use crate::heads::{Call, Head};
use crate::reader::guard::raw::SEQUENCE;
use crate::reader::section;

/// The word of each slot that holds its sheaf.
pub(crate) const WORD: Word = Region::CALLS.word(0);
/// After this many sealed callbacks of a shard a grace period is started and the driver woken.
const START_CALLS: usize = 2000 / CAPACITY * CAPACITY;
/// The bytes that one callback counts for: its head. The size of its object is not known.
pub(crate) const CALL_BYTES: usize = size_of::<Head>();
/// Number of shards, over which slots are distributed.
const SHARDS: usize = watch::WORKERS_MAX;
/// Checks whether readers have left. A runner never waits for them.
const FOLLOW_POLLS: u32 = 64;
/// Attempts to seal the slot's sheaf while other threads push there.
const SEAL_ATTEMPTS: u32 = 16;

pub(crate) static ALL: [Shard; SHARDS] = [const { Shard::new(START_CALLS) }; SHARDS];

pub(crate) enum Exchange {
    /// Another thread has changed the slot.
    Changed,
    /// Memory is out, or no slot gets a sheaf any more.
    NoSheaf,
    /// The head is deferred, and this was sealed.
    Done(Option<Batch>),
}

/// Replaces the full sheaf by an empty one with the head in it, and seals the full one.
pub(crate) fn exchange(head: *mut Head) -> Exchange {
    if sandbox::is_near() {
        // In a sandbox no thread reaches the slots of others: any thread can run what is linked.
        let _ = seal_here();
        return Exchange::NoSheaf;
    }
    let before = load(WORD);
    if before == Cursor::BOOTSTRAP || !before.is_full() {
        return Exchange::Changed;
    }
    let Some(empty) = SHEAVES.take() else {
        // Relaxed: statistics.
        emergency::LINKED.fetch_add(1, Ordering::Relaxed);
        return Exchange::NoSheaf;
    };
    let number = here();
    let cursor = format(empty, number, head.expose_provenance());
    let shard = &ALL[number];
    // Held from before the exchange on, so that the new sheaf is not sealed before the old one. And
    // so that `seal_all` in `before_sandbox` takes it, unless that is noticed here.
    let mut waiting = shard.waiting.lock();
    // SAFETY: `before` is not the bootstrap cursor; this function owns the sheaf and the head.
    if sandbox::is_near() || !unsafe { cmp_store(WORD, before, cursor) } {
        drop(waiting);
        // SAFETY: taken above, and in no word.
        unsafe { SHEAVES.give(empty) };
        return Exchange::Changed;
    }
    let sealed = before.is_sheaf().then(|| shard.seal_taken(&mut waiting, before, CALL_BYTES));
    Exchange::Done(sealed)
}

/// Writes the first head into a sheaf, and its shard into the sentinel.
fn format(sheaf: Sheaf, shard: usize, head: usize) -> Cursor {
    let cursor = shard::format(sheaf);
    // SAFETY: the sheaf belongs to this function; the only reference to this entry.
    unsafe { sheaf.entries(SENTINEL..SENTINEL + 1) }.fill(shard << 1 | 1);
    // SAFETY: as above; it is empty.
    unsafe { cursor.push(head) }
}

/// The shard of a sheaf that the caller has taken out of its slot.
fn shard_of(cursor: Cursor) -> usize {
    // SAFETY: the sheaf belongs to the caller.
    unsafe { cursor.sheaf().cursor(SENTINEL).last() >> 1 }
}

fn here() -> usize {
    usize::try_from(current_slot()).unwrap_or(0) % SHARDS
}

/// Defers a claimed head by linking it. It needs no memory.
pub(crate) fn link(head: *mut Head) -> Batch {
    ALL[here()].link(head, CALL_BYTES)
}

/// Seals the sheaves of all slots. Starts no grace period. False where a slot was not reached.
pub(crate) fn seal_all() -> bool {
    // All locks: what is pushed meanwhile cannot get into a queue before what is taken here.
    let mut held: [Held<'_, Waiting>; SHARDS] = core::array::from_fn(|at| ALL[at].waiting.lock());
    let (taken, is_complete) = slots::take(&[WORD], Reach::Interrupts, slots::ALL);
    for (_, cursor) in taken {
        let number = shard_of(cursor);
        ALL[number].seal_taken(&mut held[number], cursor, CALL_BYTES);
    }
    is_complete
}

/// [`seal_all`] in the child of a fork; true if there was a sheaf.
pub(crate) fn seal_in_child() -> bool {
    slots::take_in_child(&[WORD]).fold(false, |_, (_, cursor)| {
        let shard = &ALL[shard_of(cursor)];
        shard.seal_taken(&mut shard.waiting.lock(), cursor, CALL_BYTES);
        true
    })
}

/// True if every `step`-th shard from `first` on has something to run.
pub(crate) fn has_ready(first: usize, step: usize) -> bool {
    ALL.iter().skip(first).step_by(step).any(Shard::has_ready)
}

/// Runs what is ready in every `step`-th shard from `first` on; true if something was. `runner`:
/// see `watch`.
///
/// What the callbacks defer follows at once, see [`Place::seal_followers`], as long as its grace
/// periods end without waiting, for a turn; the reclaimer is asked for the rest.
pub(crate) fn run_ready(runner: usize, first: usize, step: usize) -> bool {
    let mut turn = Turn::default();
    let mut any = false;
    loop {
        let before = Place::here();
        let mut has_run = false;
        for shard in ALL.iter().skip(first).step_by(step) {
            let run_entry = |entry| run(runner, with_exposed_provenance_mut(entry));
            has_run |= shard.reclaim(run_entry, |head| run(runner, head));
        }
        watch::end(runner);
        any |= has_run;
        if !has_run && turn.has_begun() {
            // It is in a shard of another worker.
            bell::request(READY);
        }
        if !has_run {
            return any;
        }
        let Some(cookie) = before.seal_followers() else { return any };
        cookie.start_expedited();
        if !turn.goes_on() || !(0..FOLLOW_POLLS).any(|_| cookie.poll()) {
            bell::request(READY);
            return any;
        }
    }
}

/// Where the calling thread's next callback is pushed: its slot, and the cursor there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    slot: i32,
    cursor: Cursor,
}

impl Place {
    pub(crate) fn here() -> Place {
        Place { slot: current_slot(), cursor: load(WORD) }
    }

    /// Seals what callbacks have deferred in this thread, which was here when they began. They do
    /// not wait for the age bound: that gathers what mutators defer, and a list whose nodes defer
    /// each other, one by one, would take as long for every node. Each node gets a cookie of its
    /// own, after it was deferred, and so waits for its readers like anything else.
    ///
    /// Interrupts no CPU: it takes the sheaf of its own slot, with what mutators have pushed there.
    /// If the thread has changed its slot meanwhile, and something was pushed in the old one, it
    /// asks for a round of all slots. `None` if nothing follows, or it is too much, see
    /// [`follow`].
    pub(crate) fn seal_followers(self) -> Option<Cookie> {
        let now = Place::here();
        let is_moved = now.slot != self.slot;
        if now == self
            || !(is_moved || now.cursor.is_sheaf())
            || !follow::is_affordable()
            || is_moved && !self.has_changed()
        {
            return None;
        }
        let sealed = if is_moved { None } else { seal_here() };
        if sealed.is_none() {
            follow::spend(follow::FLUSH_NS);
            bell::request(FLUSH);
        }
        sealed.map(|batch| batch.cookie)
    }

    /// True if something was pushed in the slot since, by any thread.
    fn has_changed(self) -> bool {
        let mut cursor_now = Cursor::VACANT;
        slots::observe(&[WORD], &mut |_, slot, cursor| {
            if i32::try_from(slot) == Ok(self.slot) {
                cursor_now = cursor;
            }
        });
        cursor_now != self.cursor && cursor_now.is_sheaf()
    }
}

/// Seals the sheaf of the calling thread's slot.
fn seal_here() -> Option<Batch> {
    let shard = &ALL[here()];
    for _ in 0..SEAL_ATTEMPTS {
        // Held from before the exchange on, as in `exchange`.
        let mut waiting = shard.waiting.lock();
        let cursor = load(WORD);
        // SAFETY: a sheaf, so not the bootstrap cursor.
        if cursor.is_sheaf() && unsafe { cmp_store(WORD, cursor, Cursor::VACANT) } {
            return Some(shard.seal_taken(&mut waiting, cursor, CALL_BYTES));
        }
    }
    None
}

pub(crate) fn run(runner: usize, head: *mut Head) {
    // SAFETY: valid until it is called, by the contract of `call_rcu`.
    let Some(call) = (unsafe { (*head).finish() }) else { return };
    watch::begin(runner, call);
    let function = core::ptr::with_exposed_provenance::<()>(call);
    // SAFETY: the address is that of a function of this type, from `call_rcu`.
    let function = unsafe { core::mem::transmute::<*const (), Call>(function) };
    tsan::acquire(SEQUENCE);
    // SAFETY: a grace period has passed; the contract of `call_rcu` is the function's.
    unsafe { function(head) };
    tsan::release(SEQUENCE);
}

/// Aborts the process if a callback has left a read section open.
pub(crate) fn refuse_open_section() {
    if section::is_reading() {
        report::die(format_args!("rcu: a deferred call has left a read section open"));
    }
}

/// What is pending, including callbacks without a cookie; and how much of it is linked.
pub(crate) fn pending() -> (Pending, Pending) {
    let (shards, linked) = Pending::of(&ALL);
    let mut calls = shards.objects as usize;
    slots::observe(&[WORD], &mut |_, _, cursor| calls += cursor.index() - SENTINEL);
    let of = |calls: usize| Pending::new(calls, calls * CALL_BYTES);
    (of(calls.saturating_sub(linked)), of(linked))
}
