//! The slow paths, taken when the sheaf of allocations is empty or that of frees is full. They try,
//! in this order: the slot's other sheaf, deferred objects whose cookie has passed, the depot, the
//! slabs.
//!
//! A thread may change slots between any two lines here. That is harmless: a sheaf is in exactly
//! one place, and every move is one exchange of a word whose value names sheaf and fill. A sheaf
//! that a thread has taken out is the thread's own.

use sheaves_percpu::internal::slots::{Attached, attach};
use sheaves_percpu::internal::{Cursor, Mode, Word, cmp_store, load, mode, pop_slow, push_slow};

use crate::cache_id::CacheId;
use crate::slot::take_sheaf;
use crate::{chunk, debug, deferred, flush, pool, refill};

/// Attempts of a slow path, which fails when other threads change the slot meanwhile. After that it
/// goes to the slabs: with the portable engine all slots can be busy for as long as a preempted
/// thread holds one.
const ATTEMPTS: u32 = 64;

/// True when a sheaf of freed objects is at least half full, and so worth a swap. With less, a
/// program that uses only a few objects would be on the slow path all the time.
fn is_worth_a_swap(cursor: Cursor) -> bool {
    2 * cursor.fill() >= cursor.sheaf().capacity()
}

/// Allocates an object when the fast path found none; 0 when memory is out.
#[cold]
#[inline(never)]
pub(crate) fn alloc_slow(id: CacheId) -> usize {
    let shape = id.shape();
    if shape.debug {
        return debug::alloc(id);
    }
    if let Some(object) = exchange_empty(id) {
        return object;
    }
    for _ in 0..ATTEMPTS {
        if attach() == Attached::No {
            break;
        }
        if let Some(object) = pop_slow(id.allocs()) {
            return object;
        }
        let Some(cursor) = take_sheaf(id.frees(), is_worth_a_swap)
            .or_else(|| deferred::take_ready(id))
            .or_else(|| full_sheaf(id))
            .or_else(|| refilled_sheaf(id))
            .or_else(|| take_sheaf(id.frees(), |cursor| !cursor.is_empty()))
            .or_else(|| deferred::take_any_ready(id))
        else {
            break;
        };
        install(id, id.allocs(), cursor, Cursor::is_empty);
    }
    take_one(id)
}

/// The common case: a sheaf with objects, from the slot's other word or the depot, replaces the
/// empty one. The object to return is its last one.
#[inline]
fn exchange_empty(id: CacheId) -> Option<usize> {
    let empty = load(id.allocs());
    if !empty.is_sheaf() || !empty.is_empty() {
        return None;
    }
    let swapped = take_sheaf(id.frees(), is_worth_a_swap);
    let cursor = swapped.or_else(|| deferred::take_ready(id)).or_else(|| full_sheaf(id))?;
    // What was read before a sheaf was taken is a hint: meanwhile the sheaf may have been emptied
    // and filled again, with its sentinel in another place.
    if cursor.is_empty() {
        retire(id, cursor);
        return None;
    }
    // SAFETY: the sheaf is ours.
    let object = unsafe { cursor.last() };
    // SAFETY: `empty` is not the bootstrap cursor; the sheaf, less that object, is ours.
    let exchanged = unsafe { cmp_store(id.allocs(), empty, cursor.down(1)) };
    // The same holds for the sheaf that came out: only now it is certain that it is empty.
    if exchanged && swapped.is_some() && empty.is_empty() {
        retire(id, id.descriptor().depot.refit(id.shape(), empty));
    } else {
        retire(id, if exchanged { empty } else { cursor.down(1) });
    }
    Some(object)
}

/// Frees an object when the fast path found no room.
#[cold]
#[inline(never)]
pub(crate) fn free_slow(id: CacheId, object: usize) {
    free(id, object);
    chunk::purge_if_due();
}

#[inline]
fn free(id: CacheId, object: usize) {
    let shape = id.shape();
    if shape.debug {
        debug::free(id, object);
        return;
    }
    if exchange_full(id, object) {
        return;
    }
    for _ in 0..ATTEMPTS {
        if attach() == Attached::No {
            break;
        }
        // SAFETY: the caller of `free` owns the object; what is pushed is not used again.
        if unsafe { push_slow(id.frees(), object) } {
            return;
        }
        // The swap: `retire` puts the full sheaf where the empty one was.
        let Some(cursor) = empty_sheaf(id) else { break };
        install(id, id.frees(), cursor, Cursor::is_full);
    }
    flush::flush(id, &mut [object]);
}

/// The common case: an empty sheaf with the object in it replaces the full one. False when the
/// object was not freed.
#[inline]
fn exchange_full(id: CacheId, object: usize) -> bool {
    let full = load(id.frees());
    if !full.is_sheaf() || !full.is_full() {
        return false;
    }
    let Some(cursor) = empty_sheaf(id) else { return false };
    // The fill that was read before is a hint, as above.
    if cursor.is_full() {
        retire(id, cursor);
        return false;
    }
    // SAFETY: the sheaf is ours, and not full.
    let cursor = unsafe { cursor.push(object) };
    // SAFETY: `full` is not the bootstrap cursor; the sheaf is ours, and so is the object in it.
    let exchanged = unsafe { cmp_store(id.frees(), full, cursor) };
    retire(id, if exchanged { full } else { cursor });
    true
}

/// A full sheaf from the depot.
fn full_sheaf(id: CacheId) -> Option<Cursor> {
    count_trip(id);
    id.take_full()
}

fn count_trip(id: CacheId) {
    id.descriptor().depot.count_trip(id.shape());
}

/// An empty sheaf for frees: the one that allocations have emptied, or a new one.
fn empty_sheaf(id: CacheId) -> Option<Cursor> {
    take_sheaf(id.allocs(), Cursor::is_empty).or_else(|| id.descriptor().depot.empty_sheaf())
}

/// A sheaf filled from slabs, perhaps in part; `None` when memory is out.
fn refilled_sheaf(id: CacheId) -> Option<Cursor> {
    let depot = &id.descriptor().depot;
    depot.missed(id.shape());
    let empty = depot.empty_sheaf()?;
    // SAFETY: taken from the pool, owned by us, no other reference.
    let room = unsafe { empty.room() };
    let count = refill::refill(id, room);
    if count == 0 {
        pool::put_empty(empty.sheaf());
        return None;
    }
    // A short refill leaves its objects at the end.
    room.copy_within(room.len() - count.., 0);
    Some(empty.up(count))
}

/// Puts a sheaf that the caller owns into a word of the current slot, if `replaceable` accepts the
/// word's present value. Otherwise another thread has changed the word, and the sheaf is retired.
pub(crate) fn install(
    id: CacheId,
    word: Word,
    cursor: Cursor,
    replaceable: impl Fn(Cursor) -> bool,
) {
    while attach() == Attached::Yes {
        let current = load(word);
        if current == Cursor::BOOTSTRAP {
            // A drain has the slot's words, or every slot of the portable engine is busy. `attach`
            // waits for a drain; without a free slot the thread goes on without one.
            if mode() == Mode::Portable {
                break;
            }
            continue;
        }
        if !replaceable(current) {
            break;
        }
        // SAFETY: `current` is not the bootstrap cursor; the caller owns the sheaf of `cursor`.
        if unsafe { cmp_store(word, current, cursor) } {
            retire(id, current);
            return;
        }
    }
    retire(id, cursor);
}

/// Finds a place for a sheaf that the caller owns: a vacant word of the current slot that can use
/// it, the depot, the pool, or its objects' slabs.
pub(crate) fn retire(id: CacheId, cursor: Cursor) {
    if !cursor.is_sheaf() {
        return;
    }
    let word = if cursor.is_empty() { id.frees() } else { id.allocs() };
    // SAFETY: VACANT is not the bootstrap cursor; the caller owns the sheaf.
    if unsafe { cmp_store(word, Cursor::VACANT, cursor) } {
        return;
    }
    if cursor.is_full() {
        count_trip(id);
    }
    flush::put_away(id, cursor);
}

/// An object straight from the slabs, for a thread without a slot or without memory for a sheaf.
fn take_one(id: CacheId) -> usize {
    let mut one = [0];
    if refill::refill(id, &mut one) == 1 {
        return one[0];
    }
    // Memory is out, but the depot may have objects.
    let Some(cursor) = id.take_full() else { return 0 };
    // SAFETY: a full sheaf that we own.
    let object = unsafe { cursor.last() };
    flush::flush_sheaf(id, cursor.down(1));
    object
}
