//! What one tick returns, of this layer.
//!
//! | where | is unused when | goes to |
//! |---|---|---|
//! | the sheaves of a slot | their cursors are the same at two ticks | slabs |
//! | the depot | the objects were not needed between two ticks | slabs |
//! | a quarantine | it is too much, or too old | slabs |
//! | empty slabs | nothing was refilled or exchanged between two ticks | granules |
//! | holes in slabs | the slab has as many free objects as at the last tick | the kernel |
//! | free granules | they were free at the last tick | the kernel |
//!
//! Objects in use do not move, but refills are from the fullest slabs: [`compact`] has a program
//! that goes on to allocate and free end up with full slabs instead of many sparse ones.
//!
//! The ticks are those of the reclaimer of `sheaves-rcu`, see
//! [`sheaves_rcu::internal::arm_keeper`]. A cache that is in use pays one refill for each tick; one
//! that is not used has nothing after three.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_percpu::internal::{Cursor, Word, slots};
use sheaves_percpu::slot_count;
use sheaves_rcu::internal::keeper;
use sheaves_sys::map;
use sheaves_sys::membarrier::Reach;

use crate::checked::incoming::flush_where;
use crate::checked::quarantine;
use crate::moves::registry::{self, REGISTRY, if_existing};
use crate::moves::{flush, holes, release};
use crate::parts::pool;
use crate::space::cache_id::{CACHES_MAX, CacheId};
use crate::space::chunk;
use crate::space::granule::{self, Granule};
use crate::space::hint::Hint;
use crate::space::slab::{self, Holes};
use crate::space::window::{CHUNK_GRANULES, GRANULE_BYTES};
use crate::space::work::{self, Piece};

/// With less left after a tick there is no other one: frees keep that small, see `chunk`.
const LEFT_BYTES_MIN: usize = 1 << 20;

/// One tick of everything in reach. True if enough is left that may be unused at the next. In a
/// thread of the program it is a piece, and [`go_on`] does the others.
pub(crate) fn tick(reach: Reach) -> bool {
    if reach == Reach::Quiet {
        CACHES_LEFT.set(registry::numbers_used());
        NEXT.set(NEXT.get().max(FIRST));
        go_on();
        return true;
    }
    CACHES_LEFT.set(0);
    let mut left_bytes = 0;
    each_batch(0..registry::numbers_used(), |ids, words| {
        left_bytes += tick_slots(ids, words, reach);
    });
    for id in registry::all_ids() {
        while if_existing(id, quarantine::tick) == Some(true) {}
        flush_depot(id, tick_depot(id));
        left_bytes += tick_slabs(id, reach);
    }
    release::arm_reclaimer_if_pending();
    let walked_bytes = walk(Piece::whole(), GRANULES_MAX);
    finish(left_bytes + walked_bytes.unwrap_or(LEFT_BYTES_MIN))
}

/// The caches that a tick of a thread of the program has not come to.
static CACHES_LEFT: Hint = Hint::new(0);
/// The objects that the depot of the cache behind them did not need.
static SURPLUS: Hint = Hint::new(0);

/// True if a tick is not through.
#[inline]
pub(crate) fn is_going_on() -> bool {
    NEXT.get() != 0
}

/// A piece of a tick, in a thread of the program: one cache after the other, then the walk.
pub(crate) fn go_on() {
    let piece = Piece::begin();
    while !piece.is_over() {
        let number = CACHES_LEFT.get();
        let id = CacheId::new(number as u16);
        if SURPLUS.get() != 0 {
            let objects = if_existing(id, |id| flush::flush_depot(id, 1)).unwrap_or(0);
            SURPLUS.set(if objects == 0 { 0 } else { SURPLUS.get().saturating_sub(objects) });
        } else if let Some(number) = number.checked_sub(1) {
            let id = CacheId::new(number as u16);
            if if_existing(id, quarantine::tick) != Some(true) {
                tick_cache(id);
                CACHES_LEFT.set(number);
            }
        } else {
            if let Some(walked_bytes) = walk(piece, usize::MAX) {
                finish(walked_bytes);
            }
            break;
        }
    }
    release::leave_arming_to_reclaimer();
}

/// A tick of a cache, but for its quarantine and the surplus of its depot.
fn tick_cache(id: CacheId) {
    let number = usize::from(id.number());
    each_batch(number..number + 1, |ids, words| {
        LEFT_BYTES.add(tick_slots(ids, words, Reach::Quiet));
    });
    SURPLUS.set(tick_depot(id));
    LEFT_BYTES.add(tick_slabs(id, Reach::Quiet));
    work::note(1);
}

/// The end of a tick. True if so much is left that there is to be another one.
fn finish(left_bytes: usize) -> bool {
    let left_bytes = left_bytes + chunk::note_tick();
    let is_left = left_bytes >= LEFT_BYTES_MIN;
    if !is_left {
        pool::trim();
    } else if !keeper::is_active() {
        // Where threads of the program tick.
        chunk::note_unused(left_bytes);
    }
    is_left
}

/// Caches whose words are drained together.
const BATCH: usize = 32;

/// Flushes the sheaves of slots whose cursors have not changed since the last tick; returns the
/// bytes of the others. May interrupt the CPUs that run this process once, if there are such
/// sheaves.
fn tick_slots(ids: &[CacheId], words: &[Word], reach: Reach) -> usize {
    let Some(seen) = Seen::get() else { return 0 };
    let (mut left_bytes, mut any_idle) = (0, false);
    slots::observe(words, &mut |index, slot, cursor| {
        let is_idle = seen.note(words[index], slot, cursor);
        any_idle |= is_idle;
        left_bytes += if is_idle { 0 } else { cursor.fill() * ids[index / 2].shape().stride };
    });
    if any_idle {
        flush_where(ids, words, reach, &|index, slot, cursor| {
            seen.is_idle(words[index], slot, cursor)
        });
    }
    left_bytes
}

/// Flushes the sheaves of all slots.
pub(crate) fn flush_slots() {
    each_batch(0..registry::numbers_used(), |ids, words| {
        flush_where(ids, words, Reach::Interrupts, &|_, _, _| true);
    });
}

/// A cache with less free memory in its slabs is not sparse.
const SPARSE_BYTES_MIN: usize = 1 << 20;

/// So often caches are compacted, until the free memory in their slabs has changed. Not for ever:
/// what a program keeps may be everywhere.
const ROUNDS: usize = 100;

/// Flushes the sheaves of sparse caches: those in whose slabs most objects are free. While a
/// program replaces objects, those in sheaves go round and keep sparse slabs in use. After a flush,
/// refills are from the fullest slabs, and others become empty as their objects are freed. True if
/// it is to be called again soon.
pub(crate) fn compact() -> bool {
    static FREE_BYTES: Hint = Hint::new(0);
    static ROUND: Hint = Hint::new(0);
    let mut free_bytes = 0;
    each_batch(0..registry::numbers_used(), |ids, words| {
        let mut is_sparse = [false; BATCH];
        for (id, is_sparse) in ids.iter().zip(&mut is_sparse) {
            let bytes = free_bytes_if_sparse(*id);
            *is_sparse = bytes != 0;
            free_bytes += bytes;
        }
        if is_sparse.contains(&true) {
            flush_where(ids, words, Reach::Interrupts, &|index, _, _| is_sparse[index / 2]);
        }
    });
    release::arm_reclaimer_if_pending();
    let before = FREE_BYTES.get();
    if free_bytes.abs_diff(before) > before / 8 {
        FREE_BYTES.set(free_bytes);
        ROUND.set(0);
    }
    free_bytes != 0 && ROUND.add(1) < ROUNDS
}

/// Bytes of free objects in the slabs of a cache, 0 if it is not sparse.
fn free_bytes_if_sparse(id: CacheId) -> usize {
    let shape = id.shape();
    let slabs = id.descriptor().slabs.lock();
    if slabs.serve_slots(shape) {
        // Refills are from the slot's slabs, not from the fullest.
        return 0;
    }
    let counts = slabs.counts;
    drop(slabs);
    let objects = (counts.slabs - counts.empty) as usize * shape.slab_objects;
    let free = objects.saturating_sub(id.descriptor().depot.in_use());
    let is_sparse = free > objects / 2 && free * shape.stride >= SPARSE_BYTES_MIN;
    if is_sparse && shape.is_plain() { free * shape.stride } else { 0 }
}

/// Calls `visit` with those of these caches that exist and two words of each, [`BATCH`] caches at a
/// time. Under the registry lock: no cache is destroyed meanwhile.
fn each_batch(numbers: Range<usize>, mut visit: impl FnMut(&[CacheId], &[Word])) {
    for first in numbers.clone().step_by(BATCH) {
        let registry = REGISTRY.lock();
        let mut ids = [CacheId::new(0); BATCH];
        let mut words = [Word::new(0); 2 * BATCH];
        let mut count = 0;
        for number in first..numbers.end.min(first + BATCH) {
            let id = CacheId::new(number as u16);
            if registry.has(id) {
                ids[count] = id;
                words[2 * count..2 * count + 2].copy_from_slice(&id.words());
                count += 1;
            }
        }
        visit(&ids[..count], &words[..2 * count]);
    }
}

/// The cursors of all words in all slots at the last tick, and whether they were the same before.
#[derive(Clone, Copy)]
struct Seen(usize);

impl Seen {
    /// `None` when memory is out: then nothing is idle.
    fn get() -> Option<Seen> {
        // The keeper's own; its mapping is zeroed.
        static BASE: Hint = Hint::new(0);
        let base = BASE.get();
        if base != 0 {
            return Some(Seen(base));
        }
        let base = map::anywhere(CACHES_MAX * 2 * slot_count() * 8)?;
        BASE.set(base);
        Some(Seen(base))
    }

    fn entry(self, word: Word, slot: usize) -> &'static AtomicU64 {
        let address = self.0 + (word.offset() / 8 * slot_count() + slot) * 8;
        // SAFETY: the mapping has an entry for each word of a cache in each slot.
        unsafe { &*core::ptr::with_exposed_provenance::<AtomicU64>(address) }
    }

    /// Notes a cursor; true if it is the one of the last tick. Bit 0 of an entry notes that.
    fn note(self, word: Word, slot: usize, cursor: Cursor) -> bool {
        let (entry, bits) = (self.entry(word, slot), cursor.bits() as u64);
        // Relaxed, both: the keeper's own.
        let is_idle = entry.load(Ordering::Relaxed) & !1 == bits;
        entry.store(bits | u64::from(is_idle), Ordering::Relaxed);
        is_idle
    }

    fn is_idle(self, word: Word, slot: usize, cursor: Cursor) -> bool {
        // Relaxed: the keeper's own.
        self.entry(word, slot).load(Ordering::Relaxed) == cursor.bits() as u64 | 1
    }
}

/// Sheaves that are flushed at one hold of the registry lock.
const SHEAVES: usize = 64;

/// The objects of the depot that were not needed since the last tick.
fn tick_depot(id: CacheId) -> usize {
    if_existing(id, |id| id.descriptor().depot.tick(id.shape())).unwrap_or(0)
}

/// Flushes this many objects of the depot, or a few more.
pub(crate) fn flush_depot(id: CacheId, mut objects: usize) {
    while objects > 0 {
        match if_existing(id, |id| flush::flush_depot(id, SHEAVES)) {
            None | Some(0) => return,
            Some(count) => objects = objects.saturating_sub(count),
        }
    }
}

/// Releases the empty slabs of a cache that was not used since the last tick; one step of that in a
/// thread of the program. Returns the bytes that are left in empty slabs, in the depot, and in
/// quarantine.
fn tick_slabs(id: CacheId, reach: Reach) -> usize {
    let shrink_if_unused = |id: CacheId| {
        let descriptor = id.descriptor();
        let was_used = descriptor.depot.was_used(descriptor.slabs.lock().counts.refills);
        if !was_used {
            descriptor.depot.shrink_sheaves(id.shape());
        }
        !was_used
    };
    if if_existing(id, shrink_if_unused) == Some(true) {
        while if_existing(id, release::release_step) == Some(true) && reach == Reach::Interrupts {}
    }
    let left_bytes = |id: CacheId| {
        let (descriptor, shape) = (id.descriptor(), id.shape());
        let empty = descriptor.slabs.lock().counts.empty as usize;
        let free_bytes = descriptor.depot.objects() * shape.stride;
        empty * shape.granules * GRANULE_BYTES + free_bytes + quarantine::surplus_bytes(id)
    };
    if_existing(id, left_bytes).unwrap_or(0)
}

/// A tick of the library's thread walks over this many granules at most: 4 GiB in 2 ms.
const GRANULES_MAX: usize = 2048 * CHUNK_GRANULES;
/// The granule at which the walk over the heap goes on, counted from [`FIRST`]; 0 if it is through.
static NEXT: Hint = Hint::new(0);
const FIRST: usize = 1;
/// What it has left of the free objects so far, in bytes.
static LEFT_BYTES: Hint = Hint::new(0);

/// Goes on with the walk over the heap: discards the holes of slabs that have as many free objects
/// as at the last walk, and what is free since then. Returns the bytes of free objects in the other
/// slabs once it is through, `None` before.
fn walk(piece: Piece, granules_max: usize) -> Option<usize> {
    let mut number = NEXT.get().max(FIRST) - FIRST;
    let end = number.saturating_add(granules_max);
    while number < end && !piece.is_over() {
        if number.is_multiple_of(CHUNK_GRANULES) {
            match chunk::tick(number / CHUNK_GRANULES) {
                None => {
                    NEXT.set(0);
                    return Some(LEFT_BYTES.swap(0));
                }
                // There may be more in the chunk.
                Some(chunk::PIECE_GRANULES..) => continue,
                Some(_) => work::note(1),
            }
        }
        LEFT_BYTES.add(tick_holes(granule::first().after(number)));
        number += 1;
    }
    NEXT.set(number + FIRST);
    None
}

/// Discards the holes of a slab if it has as many free objects as at the last tick. Otherwise
/// returns their bytes.
fn tick_holes(granule: Granule) -> usize {
    if granule.entry() == 0 {
        return 0;
    }
    work::note(1);
    let slab = slab::header(granule);
    match slab.tick_holes() {
        Holes::NothingToDo => 0,
        Holes::Changed => {
            // Relaxed: a hint.
            let free = slab.free.load(Ordering::Relaxed) as usize;
            with_cache_of(granule, |id| free * id.shape().stride).unwrap_or(0)
        }
        Holes::Unchanged => {
            discard_holes(granule);
            0
        }
    }
}

/// Calls `act`, under the registry lock, with the cache of the slab that begins with a granule.
fn with_cache_of<R>(granule: Granule, act: impl FnOnce(CacheId) -> R) -> Option<R> {
    // Relaxed: a hint; what depends on it is checked under locks.
    let cache = slab::header(granule).cache.load(Ordering::Relaxed);
    if_existing(CacheId::new(cache.checked_sub(1)?), act)
}

/// Discards the pages that are wholly inside free objects of the slab that begins with a granule.
pub(crate) fn discard_holes(granule: Granule) {
    with_cache_of(granule, |id| holes::discard(id, granule));
}

/// The same if objects of the slab became free since its holes were discarded.
pub(crate) fn discard_new_holes(granule: Granule) {
    if slab::header(granule).has_new_holes() {
        discard_holes(granule);
    }
}
