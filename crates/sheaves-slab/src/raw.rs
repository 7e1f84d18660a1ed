//! Caches of untyped objects.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use sheaves_percpu::{self as percpu, Access, Word, sheaf::is_sentinel};

use crate::descriptor::{CacheId, Constructor};
pub use crate::registry::CacheError;
use crate::registry::{self, Request};
use crate::stats::CacheStats;
use crate::{bulk, chunk, deferred, reclaim, slow, stats};

/// How a cache behaves beyond size and alignment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Objects come back zeroed.
    pub zero: bool,
    /// `TYPESAFE_BY_RCU`: an object that is freed may be handed out again at once, but as long as
    /// somebody reads ([`sheaves_rcu::read`]) who may have its address, it stays an object of this
    /// cache: its slab goes neither to another cache nor to the system. For readers who check
    /// after they have looked whether it is still the object that they meant.
    pub typesafe_by_rcu: bool,
    /// Every call is checked; slow. `SHEAVES_DEBUG=1` makes every cache one of these.
    pub debug: bool,
}

/// A cache of equal objects, shared by all threads.
///
/// Allocation and free of the common kind are about a dozen instructions on the slot's sheaves:
/// no lock, no atomic instruction. Objects are at multiples of the alignment, 8 bytes at
/// the least, and consecutive allocations tend to be neighbours. The handle is 56 bytes.
/// Slabs have at most 4,096 objects: one of 8-byte objects uses half of its 64 KiB, the other half
/// is address space that is never touched.
///
/// Memory: what one thread wrote into an object before it freed it happens before what the next
/// user reads. Blocking: the slow paths may sleep on a lock for microseconds. Signals: do not
/// call from a signal handler. Fork: a child may go on using every cache.
///
/// Dropping the handle leaks the cache (not its objects' owners): see [`Cache::destroy`].
///
/// ```
/// use core::alloc::Layout;
/// use sheaves_slab::raw::{Cache, Options};
///
/// let cache = Cache::new("session", Layout::new::<[u64; 12]>(), Options::default())?;
/// let object = cache.alloc().expect("out of memory");
/// // SAFETY: from this cache, and not used after.
/// unsafe { cache.free(object) };
/// cache.destroy().expect("every object is back");
/// # Ok::<(), sheaves_slab::raw::CacheError>(())
/// ```
#[derive(Debug)]
pub struct Cache {
    access: Access,
    allocs: Word,
    frees: Word,
    deferred: Word,
    size: usize,
    id: CacheId,
    zero: bool,
}

impl Cache {
    /// Makes a cache. The name, of which 31 bytes are kept, is for reports.
    ///
    /// # Errors
    /// [`CacheError::Layout`] for size 0 or above 64 KiB and for alignment above 64 KiB,
    /// [`CacheError::TooMany`] when 860 named caches exist, [`CacheError::OutOfMemory`] when there
    /// is no address space.
    pub fn new(name: &str, layout: Layout, options: Options) -> Result<Cache, CacheError> {
        Cache::make(name, layout, options, None)
    }

    /// [`Cache::new`] with a constructor, which runs once for every object when its slab is made,
    /// not at every allocation. Objects keep their contents from free to next allocation. No lock
    /// is held meanwhile: it may allocate, from other caches, too, and fork.
    ///
    /// Whoever names the constructor vouches for it:
    ///
    /// ```compile_fail,E0133
    /// use core::alloc::Layout;
    /// use core::ptr::NonNull;
    /// use sheaves_slab::raw::{Cache, Options};
    ///
    /// unsafe extern "C" fn construct(object: NonNull<u8>) {
    ///     // SAFETY: an object is at least as large.
    ///     unsafe { object.cast::<u64>().write(7) };
    /// }
    /// let (layout, options) = (Layout::new::<u64>(), Options::default());
    /// let cache = Cache::with_constructor("session", layout, options, construct)?;
    /// # Ok::<(), sheaves_slab::raw::CacheError>(())
    /// ```
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// Given an object of that layout, which nobody else has, the constructor writes nowhere else,
    /// in whatever thread. It does not unwind, and does not use the cache.
    pub unsafe fn with_constructor(
        name: &str,
        layout: Layout,
        options: Options,
        constructor: Constructor,
    ) -> Result<Cache, CacheError> {
        Cache::make(name, layout, options, Some(constructor))
    }

    fn make(
        name: &str,
        layout: Layout,
        options: Options,
        constructor: Option<Constructor>,
    ) -> Result<Cache, CacheError> {
        let Options { zero, typesafe_by_rcu: typesafe, debug } = options;
        let id = registry::create(&Request { name, layout, constructor, debug, typesafe })?;
        Ok(Cache {
            access: Access::get(),
            allocs: id.allocs(),
            frees: id.frees(),
            deferred: id.deferred(),
            size: layout.size(),
            id,
            zero,
        })
    }

    /// One object, or `None` when there is no memory.
    #[inline]
    #[must_use]
    pub fn alloc(&self) -> Option<NonNull<u8>> {
        let object = percpu::pop(self.access, self.allocs);
        let object = if is_sentinel(object) { slow::alloc_slow(self.id) } else { object };
        let object = NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(object))?;
        if self.zero {
            // SAFETY: the object is `size` bytes and ours alone.
            unsafe { object.write_bytes(0, self.size) };
        }
        Some(object)
    }

    /// Gives an object back.
    ///
    /// A double free, an object of another cache or an address inside an object is reported and
    /// ends the process, at once in a debug cache, otherwise when the object returns to its slab.
    ///
    /// # Safety
    /// `object` came from this cache, and nobody uses it any more.
    #[inline]
    pub unsafe fn free(&self, object: NonNull<u8>) {
        let object = object.as_ptr().expose_provenance();
        // SAFETY: objects are even, and the caller gives up this one.
        if !unsafe { percpu::push(self.access, self.frees, object) } {
            slow::free_slow(self.id, object);
        }
    }

    /// Gives an object back once everybody who reads now is gone ([`sheaves_rcu::read`]).
    ///
    /// As cheap as [`Cache::free`]: nothing is written into the object, no thread is woken. After
    /// a grace period, which somebody starts at the latest after the age that
    /// [`mod@sheaves_rcu::defer`] is set to, whole sheaves of such objects serve allocations again.
    /// Never blocks, with one exception: outside of read sections, and without memory for even
    /// one sheaf, it waits for a grace period. May be called by readers.
    ///
    /// An object that is deferred twice is reported in a debug cache and otherwise found as a
    /// double free, when it returns to its slab, if at all.
    ///
    /// ```
    /// use core::alloc::Layout;
    /// use sheaves_slab::raw::{Cache, Options};
    ///
    /// let cache = Cache::new("route", Layout::new::<[u64; 4]>(), Options::default())?;
    /// let object = cache.alloc().expect("out of memory");
    /// // Unlink it, so that no new reader finds it; then:
    /// // SAFETY: from this cache; who still reads it began before now.
    /// unsafe { cache.free_rcu(object) };
    /// cache.destroy().expect("waits until the object is back");
    /// # Ok::<(), sheaves_slab::raw::CacheError>(())
    /// ```
    ///
    /// # Safety
    /// `object` came from this cache, and nobody uses it but readers who have begun before this
    /// call.
    #[inline]
    pub unsafe fn free_rcu(&self, object: NonNull<u8>) {
        let object = object.as_ptr().expose_provenance();
        // SAFETY: objects are even, and the caller gives up this one.
        if !unsafe { percpu::push(self.access, self.deferred, object) } {
            deferred::free_rcu_slow(self.id, object);
        }
    }

    /// Fills `out` from the front and returns how many objects it got: fewer only when memory is
    /// short. Costs about a nanosecond per object: whole stretches of a sheaf are copied.
    #[must_use]
    pub fn alloc_bulk(&self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        let count = bulk::alloc_bulk(self.id, out);
        if self.zero {
            for object in &out[..count] {
                // SAFETY: the first `count` places were filled.
                let object = unsafe { object.assume_init() };
                // SAFETY: the object is `size` bytes and ours alone.
                unsafe { object.write_bytes(0, self.size) };
            }
        }
        count
    }

    /// Gives many objects back.
    ///
    /// # Safety
    /// As for [`Cache::free`], for each of them; no object is in the slice twice.
    pub unsafe fn free_bulk(&self, objects: &[NonNull<u8>]) {
        bulk::free_bulk(self.id, objects);
    }

    /// Takes free objects out of every slot and the depot and releases slabs with no object out.
    /// False when a slot could not be reached. Interrupts the processors that run this process.
    pub fn shrink(&self) -> bool {
        let complete = reclaim::shrink(self.id);
        chunk::purge_if_due();
        complete
    }

    /// Ends the cache and gives its memory back. Waits for a grace period where objects are
    /// deferred.
    ///
    /// # Errors
    /// [`DestroyError`] with the cache when objects are still out: nothing is lost, it can be
    /// used on, and destroyed later.
    pub fn destroy(self) -> Result<(), DestroyError> {
        match reclaim::destroy(self.id) {
            Ok(()) => Ok(()),
            Err(objects_out) => Err(DestroyError { cache: self, objects_out }),
        }
    }

    /// Statistics. Reads under the cache's lock; microseconds.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        stats::stats(self.id)
    }

    /// The name, cut to 31 bytes.
    #[must_use]
    pub fn name(&self) -> &str {
        stats::name(self.id)
    }

    /// Bytes of an object.
    #[inline]
    #[must_use]
    pub fn object_bytes(&self) -> usize {
        self.size
    }
}

/// A cache that cannot be destroyed yet.
#[derive(Debug)]
pub struct DestroyError {
    /// The cache, as usable as before.
    pub cache: Cache,
    /// Objects that are still out; 0 when a slot could not be drained.
    pub objects_out: usize,
}

impl core::fmt::Display for DestroyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (name, count) = (self.cache.name(), self.objects_out);
        write!(f, "cache {name} cannot be destroyed: {count} objects are still out")
    }
}

impl core::error::Error for DestroyError {}

/// The fast and slow halves for callers that know a cache by its number: malloc.
pub mod by_id {
    use super::{Access, CacheId, deferred, is_sentinel, percpu, slow};
    use crate::flush;

    /// An object's address, 0 when there is no memory.
    #[inline(always)]
    #[must_use]
    pub fn alloc(id: CacheId) -> usize {
        let object = percpu::pop(Access::get(), id.allocs());
        if is_sentinel(object) { slow::alloc_slow(id) } else { object }
    }

    /// Gives an object back by the slow path, after checking that it starts an object of the
    /// cache; ends the process where it does not.
    ///
    /// # Safety
    /// As [`super::Cache::free`].
    pub unsafe fn free_checked(id: CacheId, object: usize) {
        flush::find(id, object);
        slow::free_slow(id, object);
    }

    /// Defers an object by the slow path; ends the process where none of the cache starts there.
    ///
    /// # Safety
    /// As [`super::Cache::free_rcu`].
    pub unsafe fn free_rcu_checked(id: CacheId, object: usize) {
        flush::find(id, object);
        deferred::free_rcu_slow(id, object);
    }
}
