//! Slabs: runs of granules cut into equal objects, with the bookkeeping out of line.
//!
//! The headers of slabs are in an array of their own, 640 bytes per granule. A header has one bit
//! per object: 1 = free in the slab, 0 = in a sheaf or allocated. Nothing is ever written into the
//! objects. Which thread changes which field:
//!
//! | field | changed by | under |
//! |---|---|---|
//! | a bit 0 -> 1 | a thread that flushes the object, by `fetch_or` | nothing |
//! | a bit 1 -> 0 | a refill, by `fetch_and` | the cache's lock |
//! | `free` += n | a thread that flushed n objects, after their bits | nothing |
//! | `free` -= n | a refill, before it clears at most n bits | the cache's lock |
//! | `list`, `next`, `previous` | list operations | the cache's lock |
//! | `cookie` | a thread that lists a type-stable cache's slab as empty | the cache's lock |
//! | a hold 0 -> 1 | a thread that frees the object, or returns it to the slab | nothing |
//! | a hold 1 -> 0 | a refill, or the end of a grace period | the cache's lock, or nothing |
//! | `holes` | the keeper, and a refill, which clears it | nothing |
//! | `watched_of` | the cache, with the owner map's entries | the cache's lock, or nothing |
//! | `slot` | a refill | the cache's lock |
//! | `requested` | the owner of the only object | nothing |
//! | other fields | the cache, while no object of the slab is allocated | the cache's lock |
//!
//! In a hardened cache an object is held once it has returned to the slab: it is no new one. Where
//! it has no canary (see `records/object_bytes.rs`), it is held from its free until it is taken
//! again.
//!
//! A debug cache also holds the places of its deferred objects, until their grace period is over.
//!
//! The steps on bits and `free` are in `protocol/counting.rs`.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use sheaves_sys::{map, probe};

use crate::protocol::counting;
use crate::space::cache_id::{CLASSES_MAX, CacheId, WATCHED};
use crate::space::granule::{self, Granule};
use crate::space::hint::Hint;
use crate::space::window::{self, SLAB_HEADER_BYTES};
use crate::space::work;

const BITMAP_WORDS: usize = 64;
/// The most objects of a slab.
pub(crate) const OBJECTS_MAX: usize = BITMAP_WORDS * 64;

/// In a hardened process the second half of a bitmap is that of holds, so it is also the most
/// objects of a slab.
const HOLDS: usize = BITMAP_WORDS / 2;
pub(crate) const HARDENED_OBJECTS_MAX: usize = HOLDS * 64;

/// A debug cache notes that an object is deferred as a hold, this many places behind the object's.
/// So it is also the most objects of a slab.
pub(crate) const DEBUG_OBJECTS_MAX: usize = HARDENED_OBJECTS_MAX / 2;

/// `list` of a slab that is on no list.
pub(crate) const UNLISTED: u32 = u32::MAX;

/// The out-of-line header of a slab. Aligned so that the headers of a chunk fill whole pages of 4
/// KiB, since those of a free chunk are discarded.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Slab {
    /// Number of the cache plus one; 0 when the granule starts no slab.
    pub(crate) cache: AtomicU16,
    /// Of every granule of a watched slab: the same number; 0 otherwise.
    watched_of: AtomicU16,
    /// Objects that are free and counted, see the table above.
    pub(crate) free: AtomicU32,
    /// The list that the slab is on, or [`UNLISTED`].
    pub(crate) list: AtomicU32,
    /// Next slab of the list, as granule number + 1, or 0.
    pub(crate) next: AtomicU32,
    /// Previous slab of the list, likewise.
    pub(crate) previous: AtomicU32,
    /// Number of the slot that it serves plus one; 0 for none. See [`crate::moves::home`].
    slot: AtomicU16,
    /// Twice the free objects at the last tick, plus 1 once the holes are discarded.
    holes: AtomicU32,
    /// The bytes that were last requested of the only object of a slab; 0 if it has never been
    /// used, and so reads as zeros.
    requested: AtomicU32,
    /// In type-stable caches: the cookie taken when the slab became empty.
    pub(crate) cookie: AtomicU64,
    pub(crate) bits: [AtomicU64; BITMAP_WORDS],
}

const _: () = assert!(size_of::<Slab>() == SLAB_HEADER_BYTES);
const _: () = assert!(window::CHUNK_HEADER_BYTES.is_multiple_of(4096));

/// What a tick finds of the free objects of a slab, and so what is to be done about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holes {
    /// There are none, or they were discarded.
    NothingToDo,
    /// Their number has changed since the last tick.
    Changed,
    /// Their number has not changed: they are to be discarded.
    Unchanged,
}

/// The header of a granule.
#[inline]
#[must_use]
pub(crate) fn header(granule: Granule) -> &'static Slab {
    let address = header_address(granule);
    let header = core::ptr::with_exposed_provenance::<Slab>(address);
    // SAFETY: granules are numbers below the mapped part of the heap, whose headers are mapped
    // with it and never unmapped; any bytes are a valid header and all fields are atomic.
    unsafe { &*header }
}

/// Brings what a flush changes of an object's slab into the CPU's caches.
pub(crate) fn prefetch(first: Granule, index: usize) {
    let address = header_address(first);
    map::prefetch(address);
    map::prefetch(address + offset_of!(Slab, bits) + index / 64 * size_of::<u64>());
}

fn header_address(granule: Granule) -> usize {
    let number = granule.0 - granule::first().0;
    window::SLABS.base() + number as usize * SLAB_HEADER_BYTES
}

/// Makes a slab a watched one: the frees of its objects take the slow path, which reads here of
/// which cache it is. Under the cache's lock, or by the thread that has the slab's only object.
///
/// Other threads may free objects of the slab meanwhile: either way they find the right cache.
pub(crate) fn watch(first: Granule, granules: usize) {
    // Relaxed: the caller has the slab.
    let cache = header(first).cache.load(Ordering::Relaxed);
    for index in 0..granules {
        // Relaxed: the owner map's entry is written after, by a Release. [W1]
        header(first.after(index)).watched_of.store(cache, Ordering::Relaxed);
    }
    first.set_entry(granules, WATCHED);
}

/// Undoes [`watch`].
pub(crate) fn unwatch(first: Granule, granules: usize) {
    // Relaxed: as in `watch`.
    let cache = header(first).cache.load(Ordering::Relaxed);
    first.set_entry(granules, CacheId::new(cache - 1).entry());
    for index in 0..granules {
        // Release pairs with the Acquire in `size_class_cache_of`: the entry is not WATCHED any
        // more. [W2]
        header(first.after(index)).watched_of.store(0, Ordering::Release);
    }
}

/// The size class of malloc whose slab has a granule, `None` for anything else.
#[must_use]
pub fn size_class_cache_of(granule: Granule) -> Option<CacheId> {
    loop {
        let entry = granule.entry();
        if entry != WATCHED {
            return CacheId::of_size_class_entry(entry);
        }
        // Acquire pairs with the Release of the entry, after the number was written. [W1]
        fence(Ordering::Acquire);
        // Acquire pairs with the Release in `unwatch`: a new load finds the entry changed. [W2]
        match header(granule).watched_of.load(Ordering::Acquire).checked_sub(1) {
            Some(number) if usize::from(number) <= CLASSES_MAX => {
                return Some(CacheId::new(number));
            }
            Some(_) => return None,
            None => {}
        }
    }
}

/// Discards the memory of headers; they read as zero, which means "starts no slab".
pub(crate) fn discard_headers(first: Granule, count: usize) {
    let page = map::page_bytes();
    let start = header_address(first);
    let (first_page, end_page) =
        (start.next_multiple_of(page), (start + count * SLAB_HEADER_BYTES) / page * page);
    if first_page < end_page {
        // SAFETY: only headers of these granules, which are free and held by the caller, are in
        // whole pages between start and end.
        unsafe { map::discard(first_page, end_page - first_page) };
    }
}

/// Discards the pages that are wholly inside free objects of a slab. Under the cache's lock, so
/// that no free object is taken meanwhile; not for caches whose free objects have contents. True if
/// there were any.
pub(crate) fn discard_free_objects(first: Granule, stride: usize, objects: usize) -> bool {
    let page = map::page_bytes();
    let (slab, start) = (header(first), first.address());
    let (mut index, mut any) = (0, false);
    while index < objects {
        let run = (index..objects).take_while(|object| slab.is_free(*object)).count();
        let from = (start + index * stride).next_multiple_of(page);
        let to = (start + (index + run) * stride) / page * page;
        if from < to {
            discard_hole(from, to);
            any = true;
        }
        index += run + 1;
    }
    any
}

/// Discards the pages of these objects, which are sorted and have returned to the slab a moment
/// ago, if they hold free objects only. Under the cache's lock, like [`discard_free_objects`].
pub(crate) fn discard_pages_of(
    first: Granule,
    stride: usize,
    objects: usize,
    freed: &[usize],
) -> bool {
    let page = map::page_bytes();
    let (slab, start) = (header(first), first.address());
    let end = start + objects * stride;
    let is_hole = |at: usize| {
        let mut of_page = (at - start) / stride..=(at + page - 1 - start) / stride;
        at + page <= end && of_page.all(|object| slab.is_free(object))
    };
    // The end of the pages that were looked at.
    let (mut next, mut any) = (start, false);
    for object in freed {
        let mut from = next.max(object / page * page);
        next = (object + stride).next_multiple_of(page);
        while from < next {
            let to = (from..next).step_by(page).find(|at| !is_hole(*at)).unwrap_or(next);
            if from < to {
                discard_hole(from, to);
                any = true;
            }
            from = to + page;
        }
    }
    slab.note_discarded(freed.len());
    any
}

fn discard_hole(from: usize, to: usize) {
    // SAFETY: these pages hold free objects only, and no thread can take them now.
    unsafe { map::discard(from, to - from) };
    HOLES_BYTES.add(to - from);
    work::note(work::OF_CALL + (to - from) / map::page_bytes() * work::OF_PAGE);
    probe::purge(from, to - from);
}

/// Bytes that [`discard_free_objects`] and [`discard_pages_of`] have discarded so far.
static HOLES_BYTES: Hint = Hint::new(0);

pub(crate) fn holes_bytes() -> u64 {
    HOLES_BYTES.get() as u64
}

impl Slab {
    /// Writes the header of a slab of `capacity` objects, all free, on no list. Only hardened ones
    /// read the words behind the objects' bits.
    pub(crate) fn init(&self, cache: u16, capacity: usize, is_plain: bool, reads_zero: bool) {
        let words = if is_plain { capacity.div_ceil(64) } else { BITMAP_WORDS };
        for (index, word) in self.bits[..words].iter().enumerate() {
            let count = capacity.saturating_sub(index * 64).min(64);
            let bits = if count == 64 { u64::MAX } else { (1 << count) - 1 };
            // Relaxed, all of this function: published with the owner map's entry, and with the
            // first object that leaves the slab.
            word.store(bits, Ordering::Relaxed);
        }
        self.watched_of.store(0, Ordering::Relaxed);
        self.free.store(capacity as u32, Ordering::Relaxed);
        self.list.store(UNLISTED, Ordering::Relaxed);
        self.next.store(0, Ordering::Relaxed);
        self.previous.store(0, Ordering::Relaxed);
        self.holes.store(0, Ordering::Relaxed);
        let requested = if reads_zero { 0 } else { 1 };
        self.requested.store(requested, Ordering::Relaxed);
        self.slot.store(0, Ordering::Relaxed);
        self.cache.store(cache, Ordering::Relaxed);
    }

    /// The slot that refills from the slab; `None` where no slot does.
    pub(crate) fn slot(&self) -> Option<u16> {
        // Relaxed: a hint for those without the cache's lock.
        self.slot.load(Ordering::Relaxed).checked_sub(1)
    }

    /// From now on the slab serves this slot, or none. Under the cache's lock.
    pub(crate) fn serve(&self, slot: Option<u16>) {
        // Relaxed: as above.
        self.slot.store(slot.map_or(0, |slot| slot + 1), Ordering::Relaxed);
    }

    /// True while the slab is watched: its objects are for samples.
    pub(crate) fn is_watched(&self) -> bool {
        // Relaxed: under the cache's lock, or by the thread that has the only object.
        self.watched_of.load(Ordering::Relaxed) != 0
    }

    /// Notes the bytes that are requested of the only object; returns those of the request before.
    /// None at all count as one: its user may write to all that is usable.
    #[inline]
    pub(crate) fn request(&self, bytes: u32) -> u32 {
        // Relaxed, both: only the object's owner calls this.
        let before = self.requested.load(Ordering::Relaxed);
        self.requested.store(bytes.max(1), Ordering::Relaxed);
        before
    }

    /// One tick. If the holes are unchanged, they count as discarded from now on, and the caller
    /// discards them.
    pub(crate) fn tick_holes(&self) -> Holes {
        // Relaxed, all: hints; only the keeper writes `holes`, or a cache whose slab is new.
        let free = self.free.load(Ordering::Relaxed);
        let seen = self.holes.load(Ordering::Relaxed);
        if seen / 2 != free {
            self.holes.store(2 * free, Ordering::Relaxed);
        } else if seen.is_multiple_of(2) && free != 0 {
            self.holes.store(seen + 1, Ordering::Relaxed);
            return Holes::Unchanged;
        }
        if seen / 2 != free && free != 0 { Holes::Changed } else { Holes::NothingToDo }
    }

    /// If all holes were discarded before the last `more` objects became free, they are now.
    fn note_discarded(&self, more: usize) {
        // Relaxed, all: as in `tick_holes`.
        let (free, seen) = (self.free.load(Ordering::Relaxed), self.holes.load(Ordering::Relaxed));
        if seen + 2 * more as u32 == 2 * free + 1 {
            self.holes.store(2 * free + 1, Ordering::Relaxed);
        }
    }

    /// True if objects became free since the holes were discarded; the caller discards them.
    pub(crate) fn has_new_holes(&self) -> bool {
        // The first of two ticks may only note their number.
        (0..2).any(|_| self.tick_holes() == Holes::Unchanged)
    }

    /// Takes up to `wanted` objects, lowest first; `take` gets the object's index and, in
    /// a hardened cache, whether this is the first time. Under the cache's lock.
    #[inline]
    pub(crate) fn take(&self, is_hardened: bool, wanted: usize, mut take: impl FnMut(usize, bool)) {
        // Relaxed: a hint of the keeper. Holes that were discarded are in use again.
        self.holes.store(0, Ordering::Relaxed);
        let bits = &self.bits[..if is_hardened { HOLDS } else { BITMAP_WORDS }];
        let taken_all = counting::take(&self.free, bits, wanted, |index| {
            take(index, is_hardened && !has_bit(&self.bits[HOLDS..], index));
        });
        if taken_all.is_none() {
            sheaves_sys::report::die(format_args!("a slab has fewer objects than it counts"))
        }
    }

    /// Holds objects of a hardened cache, see above. They are bits of one word; returns those that
    /// were held, or were never allocated.
    pub(crate) fn hold(&self, word: usize, bits: u64) -> u64 {
        let holds = &self.bits[HOLDS + word];
        // Acquire pairs with the Release below: of two threads that free an object, the second one
        // sees what the first one did.
        let mut held = holds.load(Ordering::Acquire);
        if held & bits != bits {
            held = holds.fetch_or(bits, Ordering::AcqRel);
        }
        // Objects that were never allocated are free without a hold. Relaxed: the bit of one that
        // is allocated was cleared before its user got it.
        (held | self.bits[word].load(Ordering::Relaxed)) & bits
    }

    /// Ends the hold of an object, which the caller owns.
    pub(crate) fn let_go(&self, index: usize) {
        // Relaxed: the next thread that holds it got it from the caller.
        self.bits[HOLDS + index / 64].fetch_and(!(1 << (index % 64)), Ordering::Relaxed);
    }

    /// True when an object is held, see [`Slab::hold`].
    pub(crate) fn is_held(&self, index: usize) -> bool {
        has_bit(&self.bits[HOLDS..], index)
    }

    /// True when there is a free object. Under the cache's lock, where the count only grows.
    pub(crate) fn has_free(&self) -> bool {
        // Relaxed: a hint.
        self.free.load(Ordering::Relaxed) != 0
    }

    /// True when the object is free in the slab: neither in a sheaf nor allocated.
    pub(crate) fn is_free(&self, index: usize) -> bool {
        has_bit(&self.bits, index)
    }
}

fn has_bit(words: &[AtomicU64], index: usize) -> bool {
    // Relaxed: the object's owner changed it last, or a snapshot for checks and statistics.
    words[index / 64].load(Ordering::Relaxed) & (1 << (index % 64)) != 0
}

#[cfg(test)]
#[path = "../../tests/unit/slab.rs"]
mod tests;
