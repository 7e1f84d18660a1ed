//! What one tick returns, of this layer.
//!
//! | where | is unused when | goes to |
//! |---|---|---|
//! | the sheaves of a slot | their cursors are the same at two ticks | slabs |
//! | the depot | the objects were not needed between two ticks | slabs |
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

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_percpu::internal::{Cursor, Word, slots};
use sheaves_percpu::slot_count;
use sheaves_sys::map;
use sheaves_sys::membarrier::Reach;

use crate::checked::{incoming, quarantine};
use crate::moves::registry::{self, REGISTRY, if_existing};
use crate::moves::{flush, release};
use crate::parts::pool;
use crate::space::cache_id::{CACHES_MAX, CacheId};
use crate::space::chunk;
use crate::space::granule::Granule;
use crate::space::hint::Hint;
use crate::space::slab::{self, Holes};
use crate::space::window::GRANULE_BYTES;

/// With less left after a tick there is no other one: frees keep that small, see `chunk`.
const LEFT_BYTES_MIN: usize = 1 << 20;

/// One tick of everything in reach. True if enough is left that may be unused at the next.
pub(crate) fn tick(reach: Reach) -> bool {
    let mut left_bytes = tick_slots(reach);
    let mut sheaves = if reach == Reach::Interrupts { usize::MAX } else { SHEAVES };
    for id in registry::all_ids() {
        tick_depot(id, &mut sheaves);
        left_bytes += if_existing(id, quarantine::tick).unwrap_or(0);
        left_bytes += tick_slabs(id, reach).unwrap_or(0);
    }
    release::arm_reclaimer_if_pending();
    let walked_bytes = walk(reach);
    left_bytes += walked_bytes.unwrap_or(LEFT_BYTES_MIN) + chunk::note_tick();
    let is_left = left_bytes >= LEFT_BYTES_MIN;
    if !is_left {
        pool::trim();
    } else if reach == Reach::Quiet {
        // A thread of the program does a piece of it at each tick.
        chunk::note_unused(left_bytes);
    }
    is_left
}

/// Caches whose words are drained together.
const BATCH: usize = 32;

/// Flushes the sheaves of slots whose cursors have not changed since the last tick; returns the
/// bytes of the others. May interrupt the CPUs that run this process once for [`BATCH`] caches, if
/// there are such sheaves.
fn tick_slots(reach: Reach) -> usize {
    let Some(seen) = Seen::get() else { return 0 };
    let mut left_bytes = 0;
    each_batch(|ids, words| {
        let mut any_idle = false;
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
    });
    left_bytes
}

/// Flushes the sheaves of the slots in reach.
pub(crate) fn flush_slots(reach: Reach) {
    each_batch(|ids, words| flush_where(ids, words, reach, &|_, _, _| true));
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
    each_batch(|ids, words| {
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

/// Flushes the sheaves in these words for which `is_wanted` is true of the word's index, the slot,
/// and the cursor. Under the registry lock.
fn flush_where(
    ids: &[CacheId],
    words: &[Word],
    reach: Reach,
    is_wanted: &dyn Fn(usize, usize, Cursor) -> bool,
) {
    let (taken, _is_complete) = slots::take(words, reach, is_wanted);
    for (index, cursor) in taken {
        incoming::drained(ids[index / 2], words[index], cursor);
    }
}

/// Calls `visit` with the caches that exist and two words of each, [`BATCH`] caches at a time.
/// Under the registry lock: no cache is destroyed meanwhile.
fn each_batch(mut visit: impl FnMut(&[CacheId], &[Word])) {
    let numbers = registry::numbers_used();
    for first in (0..numbers).step_by(BATCH) {
        let registry = REGISTRY.lock();
        let mut ids = [CacheId::new(0); BATCH];
        let mut words = [Word::new(0); 2 * BATCH];
        let mut count = 0;
        for number in first..numbers.min(first + BATCH) {
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

/// Sheaves that are flushed at one hold of the registry lock, and at a tick of a thread of the
/// program.
const SHEAVES: usize = 64;

/// Flushes what the depot did not need since the last tick, `sheaves` at the most.
fn tick_depot(id: CacheId, sheaves: &mut usize) {
    let mut surplus = if_existing(id, |id| id.descriptor().depot.tick(id.shape())).unwrap_or(0);
    while surplus > 0 && *sheaves > 0 {
        let most = SHEAVES.min(*sheaves);
        match if_existing(id, |id| flush::flush_depot(id, most)) {
            None | Some(0) => return,
            Some(count) => surplus = surplus.saturating_sub(count),
        }
        *sheaves -= most;
    }
}

/// Flushes all sheaves of the depot.
pub(crate) fn flush_depot(id: CacheId) {
    while if_existing(id, |id| flush::flush_depot(id, SHEAVES)).is_some_and(|count| count > 0) {}
}

/// Releases the empty slabs of a cache that was not used since the last tick; one step of that in a
/// thread of the program. Returns the bytes that are left in empty slabs and in the depot.
fn tick_slabs(id: CacheId, reach: Reach) -> Option<usize> {
    let shrink_if_unused = |id: CacheId| {
        let descriptor = id.descriptor();
        let was_used = descriptor.depot.was_used(descriptor.slabs.lock().counts.refills);
        if !was_used {
            descriptor.depot.shrink_sheaves(id.shape());
        }
        !was_used
    };
    if if_existing(id, shrink_if_unused)? {
        while if_existing(id, release::release_step) == Some(true) && reach == Reach::Interrupts {}
    }
    if_existing(id, |id| {
        let (descriptor, shape) = (id.descriptor(), id.shape());
        let empty = descriptor.slabs.lock().counts.empty as usize;
        empty * shape.granules * GRANULE_BYTES + descriptor.depot.objects() * shape.stride
    })
}

/// A tick of the library's thread walks over this many chunks at most: 4 GiB in 2 ms.
const CHUNKS_MAX: usize = 2048;
/// A piece of a thread of the program ends after this many chunks, or bytes that are discarded:
/// where these are single pages, that is 256 system calls.
const PIECE_CHUNKS: usize = 64;
const PIECE_BYTES: u64 = 1 << 20;

/// The chunk at which the walk over the heap goes on; 0 if it is through.
static NEXT: Hint = Hint::new(0);
/// What it has left of the free objects so far, in bytes.
static LEFT_BYTES: Hint = Hint::new(0);

/// True if a tick is not through the heap.
#[inline]
pub(crate) fn is_walking() -> bool {
    NEXT.get() != 0
}

/// A piece of the walk over the heap: discards the holes of slabs that have as many free objects as
/// at the last walk, and what is free since then. Returns the bytes of free objects in the other
/// slabs once it is through, `None` before.
pub(crate) fn walk(reach: Reach) -> Option<usize> {
    let (chunks_max, bytes_max) = match reach {
        Reach::Interrupts => (CHUNKS_MAX, u64::MAX),
        Reach::Quiet => (PIECE_CHUNKS, PIECE_BYTES),
    };
    let (first, holes_before) = (NEXT.get(), slab::holes_bytes());
    let mut freed_bytes = 0;
    for index in first..first + chunks_max {
        let Some(bytes) = chunk::tick(index) else {
            NEXT.set(0);
            return Some(LEFT_BYTES.swap(0));
        };
        freed_bytes += bytes as u64;
        LEFT_BYTES.add(chunk::granules(index).map(tick_holes).sum());
        NEXT.set(index + 1);
        if freed_bytes + slab::holes_bytes() - holes_before >= bytes_max {
            break;
        }
    }
    None
}

/// Discards the holes of a slab if it has as many free objects as at the last tick. Otherwise
/// returns their bytes.
fn tick_holes(granule: Granule) -> usize {
    if granule.entry() == 0 {
        return 0;
    }
    match slab::header(granule).tick_holes() {
        Holes::NothingToDo => 0,
        Holes::Changed => free_bytes(granule),
        Holes::Unchanged => {
            discard_holes(granule);
            0
        }
    }
}

/// Bytes of free objects in the slab that begins with a granule.
fn free_bytes(granule: Granule) -> usize {
    let slab = slab::header(granule);
    // Relaxed: a hint.
    let free = slab.free.load(Ordering::Relaxed) as usize;
    with_cache_of(granule, |id| free * id.shape().stride).unwrap_or(0)
}

/// Calls `act`, under the registry lock, with the cache of the slab that begins with a granule.
fn with_cache_of<R>(granule: Granule, act: impl FnOnce(CacheId) -> R) -> Option<R> {
    // Relaxed: a hint; what depends on it is checked under locks.
    let cache = slab::header(granule).cache.load(Ordering::Relaxed);
    if_existing(CacheId::new(cache.checked_sub(1)?), act)
}

/// Discards the pages that are wholly inside free objects of the slab that begins with a granule.
pub(crate) fn discard_holes(granule: Granule) {
    with_cache_of(granule, |id| {
        let shape = id.shape();
        let _slabs = id.descriptor().slabs.lock();
        // Relaxed: under the cache's lock; a slab of another cache, or of none, has another value.
        let is_ours = slab::header(granule).cache.load(Ordering::Relaxed) == id.in_header();
        if is_ours && shape.may_discard() {
            chunk::note_holes(granule);
            slab::discard_free_objects(granule, shape.stride, shape.slab_objects);
        }
    });
}
