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
//! The driver is woken for every [`START_CALLS`] callbacks. A callback costs 2 ns, including the
//! exchange of the sheaf after every 124 (example `defer_cost`, one thread, best round, Zen 4).
//!
//! Order: callbacks that are pushed in one slot run in that order, with two exceptions. A sheaf
//! that a thread begins while it is moved goes to the queue of the slot that the thread has left.
//! And linked heads wait separately.

use core::ops::ControlFlow::{self, Break, Continue};
use core::ptr::with_exposed_provenance_mut;
use core::sync::atomic::Ordering;

use sheaves_percpu::internal::{Cursor, Region, Sheaf, Word, cmp_store, current_slot, load, slots};
use sheaves_sys::lock::Held;
use sheaves_sys::membarrier::Reach;
use sheaves_sys::{report, tsan};

use super::watch;
use crate::defer::store::emergency;
use crate::defer::store::extents::SHEAVES;
use crate::defer::store::head::{Call, Head};
use crate::defer::store::shard::{self, Batch, CAPACITY, Pending, SENTINEL, Shard, Waiting};
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

pub(crate) static ALL: [Shard; SHARDS] = [const { Shard::new(START_CALLS) }; SHARDS];

/// Replaces the full sheaf by an empty one with the head in it, and seals the full one; links the
/// head if memory is out. Continues if another thread has changed the slot.
pub(crate) fn exchange(head: *mut Head) -> ControlFlow<Option<Batch>> {
    let before = load(WORD);
    if before == Cursor::BOOTSTRAP || !before.is_full() {
        return Continue(());
    }
    let Some(empty) = SHEAVES.take() else {
        // Relaxed: statistics.
        emergency::LINKED.fetch_add(1, Ordering::Relaxed);
        return Break(Some(link(head)));
    };
    let number = here();
    let cursor = format(empty, number, head.addr());
    let shard = &ALL[number];
    // Held from before the exchange on, so that the new sheaf is not sealed before the old one.
    let mut waiting = shard.waiting.lock();
    // SAFETY: `before` is not the bootstrap cursor; this function owns the sheaf and the head.
    if !unsafe { cmp_store(WORD, before, cursor) } {
        drop(waiting);
        // SAFETY: taken above, and in no word.
        unsafe { SHEAVES.give(empty) };
        return Continue(());
    }
    Break(before.is_sheaf().then(|| shard.seal_taken(&mut waiting, before, CALL_BYTES)))
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

/// The shard of the calling thread's slot.
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

/// True if every `step`-th shard from `first` on has something to run.
pub(crate) fn has_ready(first: usize, step: usize) -> bool {
    ALL.iter().skip(first).step_by(step).any(Shard::has_ready)
}

/// Runs what is ready in every `step`-th shard from `first` on; true if something was. `runner`:
/// see `watch`.
pub(crate) fn run_ready(runner: usize, first: usize, step: usize) -> bool {
    let run_shard = |shard: &Shard| {
        shard.reclaim(
            |entry| run(runner, with_exposed_provenance_mut(entry)),
            |head| run(runner, head),
        )
    };
    let any = ALL.iter().skip(first).step_by(step).fold(false, |any, shard| any | run_shard(shard));
    watch::end(runner);
    any
}

/// Runs a callback whose grace period has passed.
fn run(runner: usize, head: *mut Head) {
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
