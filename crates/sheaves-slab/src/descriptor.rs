//! Descriptors of the caches, and the table of all of them.
//!
//! The table is static: a number leads to its descriptor by arithmetic, and creating a cache
//! allocates no memory. A cache has two words in every slot's block: number * 2 (the sheaf of
//! allocations) and number * 2 + 1 (the sheaf of frees). The word of deferred objects is in a
//! region of its own.

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use sheaves_percpu::Sheaf;
use sheaves_percpu::Word;
use sheaves_percpu::area::Region;
use sheaves_sys::lock::Lock;

use crate::bins::Slabs;
use crate::counts::CountsOwner;
use crate::deferred::Queue;
use crate::depot::Shard;
use crate::granule::{NAMED, RUN_INSIDE};
use crate::pool::{self, SHARDS};
use crate::registry::{CLASSES_MAX, NAMED_FIRST};
use crate::slab;
use crate::window::GRANULE_BYTES;

/// The most caches that can exist at one time.
pub const CACHES_MAX: usize = Region::CACHES.words() / 2;
/// The largest object of a cache, in bytes.
pub const OBJECT_BYTES_MAX: usize = 64 << 10;
/// A sheaf holds at most this many bytes of objects (and never fewer than [`SHEAF_OBJECTS_MIN`]).
const SHEAF_HOLDS_BYTES: usize = 512 << 10;
const SHEAF_OBJECTS_MIN: usize = 7;
/// Initial number of objects of a cache's sheaves.
const SHEAF_OBJECTS_START: usize = 31;
/// Longest name that is kept, in bytes.
pub(crate) const NAME_BYTES: usize = 31;

/// Runs once for every object when its slab is created. A C function, so that C programs can pass
/// one.
pub type Constructor = unsafe extern "C" fn(NonNull<u8>);

/// The properties of a cache that do not change while it exists.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Bytes that users may use.
    pub(crate) size: usize,
    /// Distance from one object of a slab to the next, in bytes.
    pub(crate) stride: usize,
    /// ceil(2^64 / stride): see [`Shape::index_of`].
    pub(crate) reciprocal: u64,
    /// Granules of a slab, a power of two.
    pub(crate) granules: usize,
    /// Objects of a slab.
    pub(crate) slab_objects: usize,
    /// The most objects of a sheaf.
    pub(crate) sheaf_objects: usize,
    pub(crate) constructor: Option<Constructor>,
    /// A debug cache: every call takes the slow path and is checked.
    pub(crate) debug: bool,
    /// Empty slabs are kept for one grace period.
    pub(crate) typesafe: bool,
    name: [u8; NAME_BYTES],
    name_bytes: u8,
}

impl Shape {
    /// The shape for objects of `size` bytes at multiples of `align`; `None` when out of range.
    pub(crate) fn new(name: &str, size: usize, align: usize) -> Option<Shape> {
        if size == 0 || size > OBJECT_BYTES_MAX || align > GRANULE_BYTES {
            return None;
        }
        let stride = stride_for(size, align)?;
        let granules = match stride {
            0..=1088 => 1,
            1089..=2112 => 2,
            2113..=4160 => 4,
            _ => 8,
        };
        let mut kept = [0; NAME_BYTES];
        let name_bytes = name.floor_char_boundary(NAME_BYTES);
        kept[..name_bytes].copy_from_slice(&name.as_bytes()[..name_bytes]);
        Some(Shape {
            size,
            stride,
            reciprocal: u64::MAX / stride as u64 + 1,
            granules,
            slab_objects: (granules * GRANULE_BYTES / stride).min(slab::OBJECTS_MAX),
            sheaf_objects: (SHEAF_HOLDS_BYTES / stride)
                .clamp(SHEAF_OBJECTS_MIN, Sheaf::OBJECTS_MAX),
            constructor: None,
            debug: false,
            typesafe: false,
            name: kept,
            name_bytes: name_bytes as u8,
        })
    }

    /// The cache's name, cut to [`NAME_BYTES`].
    pub(crate) fn name(&self) -> &str {
        let bytes = &self.name[..usize::from(self.name_bytes)];
        core::str::from_utf8(bytes).unwrap_or("")
    }

    /// Index of the object at `offset` bytes in its slab, or `None` when no object starts there.
    ///
    /// With M = ceil(2^64 / stride), the high half of offset * M is offset / stride and the low
    /// half is below M exactly when the division has no remainder, for offsets and strides below
    /// 2^32 (Lemire, Kaser, Kurz: "Faster remainder by direct computation", 2019).
    #[inline]
    pub(crate) fn index_of(&self, offset: usize) -> Option<usize> {
        let product = u128::from(self.reciprocal) * offset as u128;
        let index = (product >> 64) as usize;
        ((product as u64) < self.reciprocal && index < self.slab_objects).then_some(index)
    }

    /// Number of objects of a cache's first sheaves.
    pub(crate) fn sheaf_objects_min(&self) -> usize {
        self.sheaf_objects.min(SHEAF_OBJECTS_START)
    }
}

/// The distance of objects, or `None` when it would be out of range.
///
/// The low bits of an address select a set of a CPU's cache, so objects at multiples of 1 KiB
/// compete for few sets. The first lines of 4 KiB objects share one of 64 sets, which is 12 lines
/// of a 48 KiB cache. One more line between objects spreads them. (Slab colouring, from Bonwick,
/// "The Slab Allocator", 1994, section 4, moves whole slabs and leaves neighbours in conflict.)
#[must_use]
pub const fn stride_for(size: usize, align: usize) -> Option<usize> {
    const LINE_BYTES: usize = 64;
    let stride = size.next_multiple_of(if align < 8 { 8 } else { align });
    if stride > OBJECT_BYTES_MAX {
        return None;
    }
    let conflicts = stride.is_multiple_of(1024) && align <= LINE_BYTES;
    if conflicts && stride < OBJECT_BYTES_MAX {
        return Some(stride + LINE_BYTES);
    }
    Some(stride)
}

/// A cache. All zeros until it is created.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Descriptor {
    shape: UnsafeCell<Option<Shape>>,
    /// Counters of the slow paths.
    pub(crate) counts: CountsOwner,
    /// The most objects in the depot; above it, sheaves are flushed to slabs.
    pub(crate) full_limit: AtomicU32,
    /// Objects of sheaves that were flushed since the limit was last raised.
    pub(crate) overflows: AtomicU32,
    /// Capacity of new sheaves in objects, see `depot::count_trip`.
    pub(crate) sheaf_objects: AtomicU32,
    /// When the limit was last raised or lowered, in units of 1024 ms.
    pub(crate) decayed: AtomicU32,
    /// An object of the cache was deferred at some time.
    deferring: AtomicBool,
    /// The cache's lock.
    pub(crate) slabs: Lock<Slabs>,
    /// The depot.
    pub(crate) shards: [Shard; SHARDS],
    /// Objects that are deferred and sealed, by slot like the depot.
    pub(crate) deferred: [Queue; SHARDS],
}

impl Descriptor {
    /// True when an object of the cache was deferred at some time.
    #[inline]
    pub(crate) fn is_deferring(&self) -> bool {
        // Acquire pairs with the Release below: a thread that seals everything finds the cache.
        self.deferring.load(Ordering::Acquire)
    }

    pub(crate) fn set_deferring(&self, is_deferring: bool) {
        // Release pairs with the Acquire above.
        self.deferring.store(is_deferring, Ordering::Release);
    }

    /// The current slot's queue of sealed sheaves.
    pub(crate) fn deferred_here(&self) -> &Queue {
        &self.deferred[pool::shard_here()]
    }
}

// SAFETY: `shape` is written under the registry lock, before the first user gets the number or
// after the last one has returned it; every other field is atomic or a lock.
unsafe impl Sync for Descriptor {}

static TABLE: [Descriptor; CACHES_MAX] = [const {
    Descriptor {
        shape: UnsafeCell::new(None),
        counts: CountsOwner::none(),
        full_limit: AtomicU32::new(0),
        overflows: AtomicU32::new(0),
        sheaf_objects: AtomicU32::new(0),
        decayed: AtomicU32::new(0),
        deferring: AtomicBool::new(false),
        slabs: Lock::new(Slabs::new()),
        shards: [const { Shard::new() }; SHARDS],
        deferred: [const { Queue::new() }; SHARDS],
    }
}; CACHES_MAX];

/// The number of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct CacheId(u16);

impl CacheId {
    /// The cache with number `number`; it must exist when it is used.
    #[inline]
    #[must_use]
    pub const fn new(number: u16) -> CacheId {
        CacheId(number)
    }

    /// The number, below [`CACHES_MAX`].
    #[inline]
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The entry of the owner map for this cache's granules.
    #[inline]
    #[must_use]
    pub const fn owner(self) -> u16 {
        if self.0 <= CLASSES_MAX as u16 { self.frees().offset() as u16 } else { NAMED }
    }

    /// The size class of an owner map's entry, `None` for anything else.
    #[inline]
    #[must_use]
    pub const fn from_owner(owner: u16) -> Option<CacheId> {
        let is_class = owner != 0 && owner < NAMED;
        if is_class { Some(CacheId(owner / 16)) } else { None }
    }

    /// The cache of a size class of malloc.
    #[inline]
    #[must_use]
    pub const fn of_class(class: usize) -> CacheId {
        CacheId(class as u16 + 1)
    }

    /// The size class that a cache of [`CacheId::of_class`] serves.
    #[inline]
    #[must_use]
    pub const fn class(self) -> usize {
        self.0 as usize - 1
    }

    /// The word of an owner map's entry: that of a size class's frees, or one that is always
    /// vacant.
    #[inline(always)]
    #[must_use]
    pub const fn frees_of_owner(owner: usize) -> Word {
        Word::at_offset(owner)
    }

    /// The value of `cache` in the headers of this cache's slabs.
    #[inline]
    pub(crate) const fn in_header(self) -> u16 {
        self.0 + 1
    }

    /// The word of the sheaf from which objects are allocated.
    #[inline(always)]
    #[must_use]
    pub const fn allocs(self) -> Word {
        Word::new(2 * (self.0 as usize % CACHES_MAX))
    }

    /// The word of the sheaf onto which objects are freed.
    #[inline(always)]
    #[must_use]
    pub const fn frees(self) -> Word {
        Word::new(2 * (self.0 as usize % CACHES_MAX) + 1)
    }

    /// The word of the sheaf onto which objects are deferred.
    #[inline(always)]
    #[must_use]
    pub const fn deferred(self) -> Word {
        Region::DEFERRED.word(self.0 as usize % CACHES_MAX)
    }

    /// The word of deferred objects for an owner map's entry, as [`CacheId::frees_of_owner`].
    #[inline(always)]
    #[must_use]
    pub const fn deferred_of_owner(owner: usize) -> Word {
        Word::at_offset(Region::DEFERRED.word(0).offset() + owner / 16 * 8)
    }

    #[inline]
    pub(crate) fn descriptor(self) -> &'static Descriptor {
        &TABLE[usize::from(self.0)]
    }

    /// The cache's shape.
    #[inline]
    pub(crate) fn shape(self) -> &'static Shape {
        // SAFETY: written only while the cache has no user, see `Sync` above.
        match unsafe { &*self.descriptor().shape.get() } {
            Some(shape) => shape,
            None => no_such_cache(self),
        }
    }

    /// True when the cache has a shape. Under the registry lock.
    pub(crate) fn has_shape(self) -> bool {
        // SAFETY: written under the lock only.
        unsafe { &*self.descriptor().shape.get() }.is_some()
    }

    /// Writes the shape of a cache without users, or removes it.
    ///
    /// # Safety
    /// The registry lock is held and no user has the number: its bit is not set.
    pub(crate) unsafe fn set_shape(self, shape: Option<Shape>) {
        // SAFETY: the caller guarantees that no other thread reads it now.
        unsafe { *self.descriptor().shape.get() = shape };
        match shape {
            Some(_) => self.descriptor().counts.make(),
            None => self.descriptor().counts.end(),
        }
        let limit = shape.map_or(0, |shape| crate::depot::limit_at_least(&shape));
        // Relaxed, all: published by the release of the registry lock.
        self.descriptor().full_limit.store(limit, Ordering::Relaxed);
        self.descriptor().overflows.store(0, Ordering::Relaxed);
        let objects = shape.map_or(0, |shape| shape.sheaf_objects_min() as u32);
        self.descriptor().sheaf_objects.store(objects, Ordering::Relaxed);
    }
}

#[cold]
fn no_such_cache(id: CacheId) -> ! {
    sheaves_sys::report::die(format_args!("cache number {} does not exist (destroyed?)", id.0))
}

const _: () = {
    assert!(Region::DEFERRED.words() == CACHES_MAX);
    // A header has 0 for none, see `CacheId::in_header`.
    assert!(CACHES_MAX <= u16::MAX as usize);
    let last = CacheId::of_class(CLASSES_MAX - 1);
    let deferred = CacheId::deferred_of_owner(last.owner() as usize);
    assert!(deferred.offset() == last.deferred().offset());
    assert!(last.owner() < NAMED && last.owner() as usize == last.frees().offset());
    assert!(CacheId::new(NAMED_FIRST as u16 - 1).frees().offset() >= RUN_INSIDE as usize);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_exact_for_every_offset() {
        for size in [8, 16, 24, 48, 80, 112, 144, 1000, 1024, 1152, 3072, 20480, 32768, 65536] {
            let shape = Shape::new("test", size, 8).unwrap();
            let stride = shape.stride;
            assert!(
                stride >= size && (size < 1024 || !stride.is_multiple_of(1024) || stride == 65536)
            );
            for offset in 0..shape.granules * GRANULE_BYTES {
                let index = offset / stride;
                let expected = offset % stride == 0 && index < shape.slab_objects;
                assert_eq!(shape.index_of(offset), expected.then_some(index), "{stride} {offset}");
            }
        }
    }

    /// The unused end of a slab is less than an eighth of it, except for the smallest objects: a
    /// slab has room for more of these than a header has bits.
    #[test]
    fn slabs_are_used_whole_but_for_objects_of_8_bytes() {
        for size in 1..=OBJECT_BYTES_MAX {
            let shape = Shape::new("test", size, 8).unwrap();
            let (used, slab) = (shape.slab_objects * shape.stride, shape.granules * GRANULE_BYTES);
            if shape.stride == 8 {
                assert_eq!((used, shape.slab_objects), (slab / 2, slab::OBJECTS_MAX));
            } else {
                assert!(slab - used < slab / 8, "{size}");
            }
        }
    }

    #[test]
    fn shapes_out_of_range_are_refused() {
        assert!(Shape::new("zero", 0, 8).is_none());
        assert!(Shape::new("large", OBJECT_BYTES_MAX + 1, 8).is_none());
        assert!(Shape::new("odd", OBJECT_BYTES_MAX - 1, 2 * GRANULE_BYTES).is_none());
    }
}
