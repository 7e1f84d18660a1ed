//! Home: what threads free that have changed slots goes back to its slab.
//!
//! Small objects share cache lines. A slab serves one slot, so that threads on different CPUs write
//! to different lines. When two threads change CPUs, each goes on with what the other one has
//! freed, in lines in which the other one still writes: and so it would remain, since sheaves go
//! round and meet no slab. So after a thread has changed slots, its new slot goes without sheaves
//! of small objects for a while: what is freed goes to its slab, what is allocated comes from the
//! slot's slabs. That ends when no object of another slot's slab was freed for [`QUIET`] calls, or
//! after [`CALLS_MAX`]. Each such call takes tens of nanoseconds.
//!
//! A sheaf from the depot may be full of objects of other slots' slabs, too: see [`keep_own`],
//! which is for all times.
//!
//! | `left`, `left_max` | meaning | transitions |
//! |---|---|---|
//! | one is 0 | the slot has sheaves | -> `QUIET`, `CALLS_MAX`, by an exchange when it is due |
//! | n, m | it has none of small objects for n calls, m at the most | see below |
//!
//! Each such call makes m one less, and if it is of the thread that has come, n. The free of an
//! object of another slot's slab makes n `QUIET` again.
//!
//! A thread that has changed slots is noticed when it takes the slow path of any cache. A process
//! with one thread needs none of this. All numbers are hints, also for threads that share a slot.

use sheaves_percpu::internal::{Cursor, EngineMode, current_slot, mode};
use sheaves_sys::{clock, tls};

use crate::moves::{flush, registry::REGISTRY, slot};
use crate::parts::pool;
use crate::parts::shape::Shape;
use crate::space::cache_id::CacheId;
use crate::space::hint::Hint;
use crate::space::slab;

/// It ends after this number of calls without an object of another slot.
const QUIET: usize = 4096;
/// It ends after this number of calls in any case: a few milliseconds.
const CALLS_MAX: usize = 1 << 16;
/// The time from one begin to the next, at least.
const AGAIN_MS: usize = 64;
/// The small ones among the caches with numbers below this are those of malloc. The slots have
/// sheaves of others until these are exchanged.
const CACHES: usize = 32;
/// Objects of a sheaf that are looked at. If they are all of the slot's slabs, so is the rest.
const LOOKED_AT: usize = 4;

/// The state of a slot, on a cache line of its own.
#[repr(align(64))]
struct Slot {
    /// Calls that go to slabs: of `thread` if no object of another slot is freed, and of all at the
    /// most.
    left: Hint,
    left_max: Hint,
    /// The thread that has come last.
    thread: Hint,
    /// Whether it is to begin, and when at the earliest, in ms.
    is_due: Hint,
    from_ms: Hint,
}

/// By the slot's number. Slots that have the same state go without sheaves more often.
static SLOTS: [Slot; 64] = [const {
    let [left, left_max, thread, is_due, from_ms] = [const { Hint::new(0) }; 5];
    Slot { left, left_max, thread, is_due, from_ms }
}; 64];

fn state_of(number: u16) -> &'static Slot {
    &SLOTS[usize::from(number) % SLOTS.len()]
}

/// The slot that a slab is to serve from which the caller refills; `None` where lines are not
/// shared.
pub(crate) fn slot_for(shape: &Shape) -> Option<u16> {
    if shape.shares_lines() && !tls::is_single_threaded() { slot_here() } else { None }
}

/// The current slot, if the thread has one.
fn slot_here() -> Option<u16> {
    u16::try_from(current_slot()).ok()
}

/// Called before a sheaf of a plain cache is exchanged: true if the call is to go to the slabs.
pub(crate) fn goes_to_slabs(id: CacheId) -> bool {
    // A thread keeps its virtual slot on every CPU; each call comes here in that engine.
    if mode() == EngineMode::Portable || tls::is_single_threaded() {
        return false;
    }
    let Some(number) = slot_here() else { return false };
    let (slot, thread) = (state_of(number), tls::thread_pointer());
    if has_changed_slots(number) {
        slot.thread.set(thread);
        slot.is_due.set(1);
    }
    if slot.is_due.get() != 0 {
        begin_if_time(slot);
    }
    let (left, left_max) = (slot.left.get(), slot.left_max.get());
    if left == 0 || left_max == 0 || !id.shape().shares_lines() {
        return false;
    }
    slot.left_max.set(left_max - 1);
    if slot.thread.get() == thread {
        slot.left.set(left - 1);
    }
    true
}

/// True if the calling thread was seen in another slot before.
fn has_changed_slots(number: u16) -> bool {
    let (seen, number) = (tls::virtual_slot(), number as i16);
    if seen != number {
        tls::set_virtual_slot(number);
    }
    seen >= 0 && seen != number
}

#[cold]
fn begin_if_time(slot: &Slot) {
    let now_ms = clock::coarse_ms() as usize;
    if now_ms < slot.from_ms.get() {
        return;
    }
    // Otherwise the next exchange begins it.
    let Some(registry) = REGISTRY.try_lock() else { return };
    slot.is_due.set(0);
    slot.from_ms.set(now_ms + AGAIN_MS);
    let ids = (0..CACHES).map(|number| CacheId::new(number as u16));
    let ids = ids.filter(|id| registry.has(*id) && id.shape().shares_lines());
    ids.for_each(flush::flush_here);
    drop(registry);
    slot.left_max.set(CALLS_MAX);
    slot.left.set(QUIET);
}

/// Flushes an object that the caller owns; notes whether its slab serves another slot.
pub(crate) fn send(id: CacheId, object: usize) {
    if let Some(number) = slot_here()
        && !is_own(id, number, object)
    {
        state_of(number).left.set(QUIET);
    }
    flush::flush(id, &mut [object]);
}

/// Flushes what is of other slots' slabs from a sheaf of the caller, which is about to allocate
/// from it. `None` if nothing is left. A slot that only frees does not come here: what it frees
/// comes back to the slot that allocates by whole sheaves.
pub(crate) fn keep_own(id: CacheId, cursor: Cursor) -> Option<Cursor> {
    let Some(number) = slot_for(id.shape()) else { return Some(cursor) };
    // SAFETY: the caller owns the sheaf, and this is the only reference to its entries.
    let objects = unsafe { cursor.objects() };
    let is_own = |object: &usize| is_own(id, number, *object);
    if objects.iter().step_by(objects.len().div_ceil(LOOKED_AT).max(1)).all(is_own) {
        return Some(cursor);
    }
    let own = slot::to_front(objects, |object| is_own(&object));
    let rest = cursor.down(objects.len() - own);
    flush::flush(id, &mut objects[own..]);
    if rest.is_empty() {
        pool::put_empty(rest.sheaf());
        return None;
    }
    Some(rest)
}

/// False when an object's slab serves another slot.
fn is_own(id: CacheId, number: u16, object: usize) -> bool {
    let slab = slab::header(flush::slab_of(id, id.shape(), object));
    slab.slot().is_none_or(|slot| slot == number)
}
