//! Objects of malloc that were allocated before profiling was turned on.
//!
//! They have not been in a slot since then, so it was never drawn whether they get a tag. Where a
//! program frees one and allocates the next at once, it would allocate untagged memory for ever. So
//! their slabs are watched: when such an object is freed for the first time, by the slow path, it
//! gets a tag as it would when it enters a slot with its sheaf. Frees that do not read the owner
//! map are not noticed, and neither are those of named caches.
//!
//! A slab has one bit for each such object, in a mapping of this module. When all of them were
//! freed once, the slab is an ordinary one again. Objects that live on would cost slow frees of
//! their neighbours; so that ends after [`FREES`] frees for each object. Of a class with many slabs
//! only a share is watched, by chance; there a tag is more likely, by the reciprocal of the share.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_sys::map;

use crate::parts::shape::Shape;
use crate::records::profile::{self, chance};
use crate::space::cache_id::CacheId;
use crate::space::granule::Granule;
use crate::space::hint::Hint;
use crate::space::slab;

/// A slab is watched for this many frees for each of its objects from before, at most.
const FREES: u64 = 32;
/// Slabs of a class that are watched, or a share of them, if that is more.
const SLABS_MIN: f64 = 64.0;
const SHARE_MIN: f64 = 1.0 / 16.0;

/// The mapping: its address, and how many words it has. It grows under the registry lock, and stays
/// mapped, since a thread may still look at bits of a slab that is not watched any more.
static BASE: Hint = Hint::new(0);
static WORDS: Hint = Hint::new(0);

/// The word at an index.
fn word(index: usize) -> &'static AtomicU64 {
    // Written before the index that the caller has got from a slab.
    let address = BASE.get() + index * 8;
    // SAFETY: inside the mapping, which stays; all access is atomic.
    unsafe { &*core::ptr::with_exposed_provenance::<AtomicU64>(address) }
}

/// Words of a slab before those with a bit for each object.
const FREES_LEFT: usize = 0;
const OBJECTS_LEFT: usize = 1;
/// As the bits of a floating-point number.
const SHARE: usize = 2;
const BITS: usize = 3;

/// Words of a slab.
fn words_for(shape: &Shape) -> usize {
    BITS + shape.slab_objects.div_ceil(64)
}

fn slabs_of(id: CacheId) -> f64 {
    f64::from(id.descriptor().slabs.lock().counts.slabs)
}

/// The share of a cache's slabs that is watched.
fn share_of(id: CacheId) -> f64 {
    let slabs = slabs_of(id);
    let tagged = chance::chance(id.shape().stride, profile::tag_rate());
    SHARE_MIN.max(tagged).max(SLABS_MIN / slabs.max(1.0)).min(1.0)
}

/// Words that the watched slabs of a cache need, about.
pub(crate) fn words_of(id: CacheId) -> usize {
    let slabs = slabs_of(id) * share_of(id);
    (slabs * 1.25 + SLABS_MIN) as usize * words_for(id.shape())
}

/// Makes room for as many words, the first of which is unused, all zero. False when memory is out.
pub(crate) fn reserve(words: usize) -> bool {
    // One thread at a time turns profiling on; see `word` for others.
    let (base, have) = (BASE.get(), WORDS.get());
    if words <= have {
        // SAFETY: this module's own mapping; a late reader finds zeros.
        unsafe { map::discard(base, have * 8) };
        return true;
    }
    // At least doubled, so that all earlier mappings together are no larger.
    let words = words.max(2 * have).next_multiple_of(map::page_bytes() / 8);
    let Some(base) = map::anywhere(words * 8) else { return false };
    BASE.set(base);
    WORDS.set(words);
    true
}

/// Watches the slabs of a cache; their words are from `place` on. Returns the first one after.
pub(crate) fn watch_slabs(id: CacheId, mut place: usize) -> usize {
    let (shape, share) = (id.shape(), share_of(id));
    let slabs = id.descriptor().slabs.lock();
    for (granule, slab) in slabs.with_allocated_objects() {
        // Relaxed, all: the bits are published with the owner map's entry.
        if place + words_for(shape) > WORDS.get() || slab.is_watched() || !chance::happens(share) {
            continue;
        }
        let mut objects = 0;
        for (index, free) in slab.bits[..shape.slab_objects.div_ceil(64)].iter().enumerate() {
            let count = (shape.slab_objects - index * 64).min(64);
            let allocated = !free.load(Ordering::Relaxed) & (u64::MAX >> (64 - count));
            word(place + BITS + index).store(allocated, Ordering::Relaxed);
            objects += u64::from(allocated.count_ones());
        }
        if objects != 0 {
            word(place + FREES_LEFT).store(FREES * objects, Ordering::Relaxed);
            word(place + OBJECTS_LEFT).store(objects, Ordering::Relaxed);
            word(place + SHARE).store(share.to_bits(), Ordering::Relaxed);
            slab.earlier.store(place as u32, Ordering::Relaxed);
            slab::watch(granule, shape.granules);
            place += words_for(shape);
        }
    }
    place
}

/// Notes that an object of a watched slab is freed. `None` if its slab is not watched for objects
/// from before; otherwise true if the object is one, this is its first free, and it gets a tag.
pub(crate) fn note_freed(id: CacheId, object: usize) -> Option<bool> {
    let shape = id.shape();
    let first = shape.first_granule(Granule::of(object)?);
    // Relaxed, all of this function: hints; each free counts once, whatever the order.
    let place = slab::header(first).earlier.load(Ordering::Relaxed) as usize;
    if place == 0 {
        return None;
    }
    let index = shape.index_of(object - first.address())?;
    let (is_first, is_last) = take(place, index / 64, 1 << (index % 64));
    let share = f64::from_bits(word(place + SHARE).load(Ordering::Relaxed));
    if word(place + FREES_LEFT).fetch_sub(1, Ordering::Relaxed) == 1 || is_last {
        forget(id, first);
    }
    let rate = profile::tag_rate();
    Some(is_first && rate != 0 && chance::happens(chance::chance(shape.stride, rate) / share))
}

/// Notes objects that return to the slab at an address without such a free: by the bits of a word
/// of its bitmap.
#[cold]
pub(crate) fn note_flushed(id: CacheId, slab: usize, index: usize, bits: u64) {
    let Some(first) = Granule::of(slab) else { return };
    // Relaxed: a hint.
    let place = slab::header(first).earlier.load(Ordering::Relaxed) as usize;
    if place != 0 && take(place, index, bits).1 {
        forget(id, first);
    }
}

/// Takes bits of a word; whether there was one, and whether none is left in the slab.
fn take(place: usize, index: usize, bits: u64) -> (bool, bool) {
    // Relaxed, both: each bit is taken once, whatever the order.
    let taken = word(place + BITS + index).fetch_and(!bits, Ordering::Relaxed) & bits;
    let count = u64::from(taken.count_ones());
    let is_last =
        count != 0 && word(place + OBJECTS_LEFT).fetch_sub(count, Ordering::Relaxed) == count;
    (count != 0, is_last)
}

/// No slab of a cache is watched any more for objects from before.
pub(crate) fn forget_slabs(id: CacheId) {
    let slabs = id.descriptor().slabs.lock();
    for (granule, _) in slabs.with_allocated_objects().filter(|(_, slab)| slab.is_earlier()) {
        slab::unwatch(granule, id.shape().granules);
    }
}

/// Watches a slab no longer.
pub(crate) fn forget(id: CacheId, first: Granule) {
    let slab = slab::header(first);
    let _slabs = id.descriptor().slabs.lock();
    // Relaxed: under the cache's lock; a slab of another cache, or of none, has another value.
    if slab.cache.load(Ordering::Relaxed) == id.in_header() && slab.is_earlier() {
        slab::unwatch(first, id.shape().granules);
    }
}
