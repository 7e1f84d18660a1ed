//! Descriptors of the caches, and the table of all of them.
//!
//! A number leads to its descriptor by arithmetic. The size classes of malloc have static ones,
//! those of named caches are in the window and are mapped when a cache is created.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_percpu::internal::{Cursor, Word};
use sheaves_sys::lock::Lock;
use sheaves_sys::map::Exactly;

use crate::parts::deferred_queue::ShardQueue;
use crate::parts::depot::Depot;
use crate::parts::pool::{self, SHARDS};
use crate::parts::shape::Shape;
use crate::parts::slab_lists::SlabLists;
use crate::space::cache_id::{CACHES_MAX, CacheId, NAMED_FIRST};
use crate::space::window::{DESCRIPTORS, DESCRIPTORS_BYTES};

/// A cache. All zeros until it is created.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Descriptor {
    /// [`Shape::NONE`] while the cache does not exist.
    shape: UnsafeCell<Shape>,
    /// The cache's lock.
    pub(crate) slabs: Lock<SlabLists>,
    pub(crate) depot: Depot,
}

/// Queues of sealed sheaves of deferred objects, one per shard as in the depot.
type Queues = [ShardQueue; SHARDS];

/// What a named cache has.
#[repr(C, align(128))]
struct Named {
    descriptor: Descriptor,
    queues: Queues,
}

// SAFETY: `shape` is written under the registry lock, before the first user gets the number or
// after the last one has returned it; every other field is atomic or a lock.
unsafe impl Sync for Descriptor {}

/// Four to a page.
#[repr(align(1024))]
struct Table([Descriptor; NAMED_FIRST]);

static TABLE: Table = Table(
    [const {
        Descriptor {
            shape: UnsafeCell::new(Shape::NONE),
            slabs: Lock::new(SlabLists::new()),
            depot: Depot::new(),
        }
    }; NAMED_FIRST],
);

const _: () = assert!(size_of::<Descriptor>() == 1024);

/// Apart from the descriptors, as most processes never defer.
static QUEUES: [Queues; NAMED_FIRST] =
    [const { [const { ShardQueue::new() }; SHARDS] }; NAMED_FIRST];

/// Maps the descriptors of the caches up to a number. Under the registry lock; false when memory is
/// out.
pub(crate) fn map_to(number: usize) -> bool {
    let named = (number + 1).saturating_sub(NAMED_FIRST);
    DESCRIPTORS.grow_to(named * size_of::<Named>()) == Exactly::Mapped
}

const _: () = assert!((CACHES_MAX - NAMED_FIRST) * size_of::<Named>() <= DESCRIPTORS_BYTES);

/// One bit for each cache that has ever deferred an object: set before the first one is deferred.
static DEFERRING: [AtomicU64; CACHES_MAX / 64] = [const { AtomicU64::new(0) }; CACHES_MAX / 64];
/// Number of words of the set of caches that defer.
pub(crate) const DEFERRING_WORDS: usize = DEFERRING.len();

/// The caches of a word of that set.
pub(crate) fn deferring(word: usize) -> impl Iterator<Item = CacheId> {
    // Acquire pairs with the Release in `set_deferring`. [D1]
    let bits = DEFERRING[word].load(Ordering::Acquire);
    let numbers = (0..64).filter(move |bit| bits & (1 << bit) != 0);
    numbers.map(move |bit| CacheId::new((word * 64 + bit) as u16))
}

impl CacheId {
    /// True when an object of the cache was deferred at some time.
    #[inline]
    pub(crate) fn is_deferring(self) -> bool {
        let (word, bit) = self.bit_in_set();
        // Acquire pairs with the Release below: the layer is registered.
        DEFERRING[word].load(Ordering::Acquire) & bit != 0
    }

    /// Notes that an object of the cache is about to be deferred, or, when the cache is destroyed,
    /// that none is.
    pub(crate) fn set_deferring(self, is_deferring: bool) {
        let (word, bit) = self.bit_in_set();
        // Release, both, pairs with the Acquire loads. A thread that seals everything after an
        // object was deferred knows of the object, and so finds the bit. [D1]
        match is_deferring {
            true => DEFERRING[word].fetch_or(bit, Ordering::Release),
            false => DEFERRING[word].fetch_and(!bit, Ordering::Release),
        };
    }

    #[inline]
    pub(crate) fn descriptor(self) -> &'static Descriptor {
        let number = usize::from(self.number());
        match TABLE.0.get(number) {
            Some(of_class) => of_class,
            None => &of_named(number - NAMED_FIRST).descriptor,
        }
    }

    /// The cache's queues of sealed sheaves.
    pub(crate) fn queues(self) -> &'static Queues {
        let number = usize::from(self.number());
        QUEUES.get(number).unwrap_or_else(|| &of_named(number - NAMED_FIRST).queues)
    }

    /// The current slot's queue of sealed sheaves.
    pub(crate) fn queue_here(self) -> &'static ShardQueue {
        &self.queues()[pool::shard_here()]
    }

    /// The cache's shape.
    #[inline]
    pub(crate) fn shape(self) -> &'static Shape {
        // SAFETY: written only while the cache has no user, see `Sync` above.
        let shape = unsafe { &*self.descriptor().shape.get() };
        if shape.size == 0 {
            no_such_cache(self);
        }
        shape
    }

    /// The shape of a size class; [`Shape::NONE`] or `None` for another number.
    #[inline]
    pub(crate) fn shape_of_class(self) -> Option<&'static Shape> {
        // SAFETY: as in `shape`.
        TABLE.0.get(usize::from(self.number())).map(|of_class| unsafe { &*of_class.shape.get() })
    }

    /// The two words of the cache that have sheaves.
    pub(crate) fn words(self) -> [Word; 2] {
        if self.shape().is_plain() { [self.main(), self.spare()] } else { self.hardened_words() }
    }

    /// Writes the shape of a cache without users; [`Shape::NONE`] removes it.
    ///
    /// # Safety
    /// The registry lock is held and no user has the number.
    pub(crate) unsafe fn set_shape(self, shape: Shape) {
        let descriptor = self.descriptor();
        // SAFETY: the caller guarantees that no other thread reads it now.
        unsafe { *descriptor.shape.get() = shape };
        if shape.size != 0 {
            descriptor.depot.reset(&shape);
            *descriptor.slabs.lock() = SlabLists::new();
        }
    }

    /// Takes a full sheaf from the depot; returns its cursor.
    pub(crate) fn take_full(self) -> Option<Cursor> {
        self.descriptor().depot.take_full()
    }
}

/// What a cache has by its place among the named caches.
fn of_named(index: usize) -> &'static Named {
    let address = DESCRIPTORS.base() + index * size_of::<Named>();
    if (index + 1) * size_of::<Named>() > DESCRIPTORS.mapped() {
        no_such_cache(CacheId::new((NAMED_FIRST + index) as u16));
    }
    // SAFETY: mapped, and never unmapped; zeros are a descriptor with queues, and locks guard the
    // rest.
    unsafe { &*core::ptr::with_exposed_provenance::<Named>(address) }
}

#[cold]
fn no_such_cache(id: CacheId) -> ! {
    sheaves_sys::report::die(format_args!(
        "cache number {} does not exist (destroyed?)",
        id.number()
    ))
}
