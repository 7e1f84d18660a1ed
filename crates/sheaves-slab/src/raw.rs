//! Caches of untyped objects.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use sheaves_percpu::Access;
use sheaves_percpu::internal::{self as percpu, Word};
use sheaves_sys::errno;
use sheaves_sys::stack::Frame;

use crate::by_id::start;
pub use crate::moves::registry::CacheError;
use crate::moves::{registry, release};
use crate::parts::shape::{Constructor, Shape};
use crate::records::profile::AllocRequest;
use crate::returning::shrink;
use crate::space::cache_id::{CACHES_MAX, CacheId, NAMED_FIRST};
use crate::space::checking::{self, Checking};
use crate::space::chunk;
use crate::stats::{self, CacheStats};
use crate::{bulk, deferred, slow};

/// Behaviour of a cache besides size and alignment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Objects are zeroed at allocation.
    pub zero: bool,
    /// Like `SLAB_TYPESAFE_BY_RCU` in the kernel: the cache is *type-stable*. A freed object may be
    /// allocated again at once. But while a reader ([`sheaves_rcu::read`]) may have its address,
    /// its slab goes neither to another cache nor to the kernel. Readers that have found an object
    /// must check that it is still the one they looked for.
    pub typesafe_by_rcu: bool,
    /// Every call is checked at once, which is slow, and the cache is as in a hardened process.
    /// `SHEAVES_DEBUG=1` sets this for every cache.
    pub debug: bool,
}

/// A cache of objects of one size, shared by all threads.
///
/// The fast paths of allocation and free are about a dozen instructions on the slot's sheaves,
/// without a lock or an atomic instruction. Objects are at multiples of the alignment, at least 8
/// bytes, and consecutive allocations tend to be neighbours. The handle is 48 bytes. A slab has at
/// most 4,096 objects: a slab of 8-byte objects uses half of its 64 KiB, and the other half is
/// address space that is never touched.
///
/// Memory: what a thread wrote into an object before it freed the object happens before the reads
/// of the object's next user. Blocking: the slow paths may sleep on a lock for microseconds.
/// Signals: do not call from a signal handler. Fork: a child may keep using every cache.
///
/// Dropping the handle leaks the cache, and the objects stay valid: see [`Cache::destroy`].
///
/// ```
/// # use sheaves_slab as sheaves;
/// use core::alloc::Layout;
/// use sheaves::raw::{Cache, Options};
///
/// let cache = Cache::new("session", Layout::new::<[u64; 12]>(), Options::default())?;
/// let object = cache.alloc().expect("out of memory");
/// // SAFETY: from this cache, and not used after.
/// unsafe { cache.free(object) };
/// cache.destroy().expect("every object is back");
/// # Ok::<(), sheaves::raw::CacheError>(())
/// ```
#[derive(Debug)]
pub struct Cache {
    access: Access,
    main: Word,
    deferred: Word,
    size: usize,
    id: CacheId,
    zero: bool,
}

impl Cache {
    /// Creates a cache. Reports use the name, cut to 31 bytes.
    ///
    /// # Errors
    /// [`CacheError::Layout`] for size 0 or above 64 KiB and for alignment above 64 KiB,
    /// [`CacheError::TooMany`] when 861 named caches exist (813 in a hardened process),
    /// [`CacheError::OutOfMemory`] when address space is out.
    pub fn new(name: &str, layout: Layout, options: Options) -> Result<Cache, CacheError> {
        Cache::make(name, layout, options, None)
    }

    /// [`Cache::new`] with a constructor. It runs once for every object when the object's slab is
    /// created, not at every allocation. Objects keep their contents from free to next allocation.
    /// No lock is held while it runs: it may allocate from other caches, and fork.
    ///
    /// Passing a constructor is `unsafe`, so this does not compile:
    ///
    /// ```compile_fail,E0133
    /// # use sheaves_slab as sheaves;
    /// use core::alloc::Layout;
    /// use core::ptr::NonNull;
    /// use sheaves::raw::{Cache, Options};
    ///
    /// unsafe extern "C" fn construct(object: NonNull<u8>) {
    ///     // SAFETY: an object is at least as large.
    ///     unsafe { object.cast::<u64>().write(7) };
    /// }
    /// let (layout, options) = (Layout::new::<u64>(), Options::default());
    /// let cache = Cache::with_constructor("session", layout, options, construct)?;
    /// # Ok::<(), sheaves::raw::CacheError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cache::new`].
    ///
    /// # Safety
    /// The constructor gets an object of `layout` that nothing else uses. It may run in any thread,
    /// and writes to nothing else. It does not unwind, and does not use the cache.
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
        start()?;
        let checking = if debug { Checking::Debug } else { checking::of_process() };
        let shape = Shape::named(layout, checking).ok_or(CacheError::Layout)?;
        let shape = Shape { constructor, typesafe, ..shape };
        let id = registry::create(name, shape, NAMED_FIRST..CACHES_MAX)?;
        if typesafe {
            // Its empty slabs wait for grace periods, which makes it a cache with deferred memory.
            deferred::note_deferring(id);
        }
        Ok(Cache {
            access: Access::get(),
            // Vacant unless the cache is plain, so each call takes the slow path. So is the spare
            // word of a debug cache, and samples make it the source in no hardened process.
            main: id.main(),
            deferred: id.deferred(),
            size: layout.size(),
            id,
            zero,
        })
    }

    /// Allocates an object; `None` when memory is out.
    #[inline]
    #[must_use]
    pub fn alloc(&self) -> Option<NonNull<u8>> {
        let Some(object) = percpu::pop_source(self.access, self.main) else {
            return alloc_slow(self);
        };
        self.zero_if_asked(object)
    }

    /// The object at an address, zeroed where the cache does that; `None` for 0.
    #[inline(always)]
    fn zero_if_asked(&self, object: usize) -> Option<NonNull<u8>> {
        let object = NonNull::new(core::ptr::with_exposed_provenance_mut::<u8>(object))?;
        if self.zero {
            // SAFETY: the object is `size` bytes and ours alone.
            unsafe { object.write_bytes(0, self.size) };
        }
        Some(object)
    }

    /// Frees an object.
    ///
    /// A double free, an object of another cache or an address inside an object aborts the process
    /// with a report. A debug cache detects it at once, any other when the object returns to its
    /// slab. An object that was freed twice may be allocated twice before that, and then not be
    /// detected.
    ///
    /// # Safety
    /// `object` came from this cache and is not used any more.
    #[inline]
    pub unsafe fn free(&self, object: NonNull<u8>) {
        let object = object.as_ptr().expose_provenance();
        // SAFETY: objects are even, and the caller no longer uses this one.
        if !unsafe { percpu::push(self.access, self.main, object) } {
            slow::free_slow(self.id, object);
        }
    }

    /// Frees an object after a grace period ([`sheaves_rcu::read`]), like the kernel's `kfree_rcu`.
    ///
    /// As cheap as [`Cache::free`]: nothing is written into the object. A grace period starts at
    /// the latest at the age that [`mod@sheaves_rcu::defer`] is set to. When it is over, whole
    /// sheaves of such objects serve allocations again. When the slot's sheaf is full it takes a
    /// short lock, and may start or wake the library's thread. Without memory for even one sheaf it
    /// waits for a grace period. Inside a read section, where that would deadlock, the object is
    /// then never freed, and the first one is reported. May be called by readers.
    ///
    /// An object that is deferred twice is reported in a debug cache. In other caches it is
    /// detected as a double free when it returns to its slab, or not at all.
    ///
    /// ```
    /// # use sheaves_slab as sheaves;
    /// use core::alloc::Layout;
    /// use sheaves::raw::{Cache, Options};
    ///
    /// let cache = Cache::new("route", Layout::new::<[u64; 4]>(), Options::default())?;
    /// let object = cache.alloc().expect("out of memory");
    /// // Unlink it, so that no new reader finds it; then:
    /// // SAFETY: from this cache; a reader that still uses it began before this call.
    /// unsafe { cache.free_rcu(object) };
    /// cache.destroy().expect("waits until the object is back");
    /// # Ok::<(), sheaves::raw::CacheError>(())
    /// ```
    ///
    /// # Safety
    /// `object` came from this cache, and only readers that began before this call use it.
    #[inline]
    pub unsafe fn free_rcu(&self, object: NonNull<u8>) {
        let object = object.as_ptr().expose_provenance();
        // SAFETY: objects are even, and the caller no longer uses this one.
        if !unsafe { percpu::push(self.access, self.deferred, object) } {
            slow::free_rcu_slow(self.id, object);
        }
    }

    /// Fills `out` from the front and returns how many objects it allocated: fewer only when memory
    /// is out. Costs about a nanosecond per object, since it copies ranges of a sheaf.
    #[must_use]
    pub fn alloc_bulk(&self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        let count = bulk::alloc_bulk(self.id, out, &AllocRequest::NONE);
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

    /// Frees many objects.
    ///
    /// # Safety
    /// As for [`Cache::free`], for each object; no object is in the slice twice.
    pub unsafe fn free_bulk(&self, objects: &[NonNull<u8>]) {
        bulk::free_bulk(self.id, objects);
    }

    /// Moves free objects from every slot and the depot to their slabs, and releases slabs without
    /// allocated objects; those of a type-stable cache that may have readers are left to the
    /// library's thread, which it may start. False when a slot could not be drained. Interrupts the
    /// CPUs that run this process.
    pub fn shrink(&self) -> bool {
        let complete = shrink::shrink(self.id);
        release::arm_reclaimer_if_pending();
        chunk::do_due_after_free();
        complete
    }

    /// Destroys the cache and returns its memory. Waits for a grace period when objects are
    /// deferred, or the cache is type-stable.
    ///
    /// # Errors
    /// [`DestroyError`] with the cache when objects are still allocated, when a slot could not be
    /// drained, and where it would have to wait inside a read section. The cache is unchanged: it
    /// can be used, and destroyed later.
    pub fn destroy(self) -> Result<(), DestroyError> {
        match shrink::destroy(self.id) {
            Ok(()) => Ok(()),
            Err(objects_out) => Err(DestroyError { cache: self, objects_out }),
        }
    }

    /// Statistics. Takes the locks of the registry and of the cache; microseconds.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        // Under the registry lock: otherwise it would miss what the keeper is moving.
        registry::if_existing(self.id, stats::stats).unwrap_or_default()
    }

    /// The name, cut to 31 bytes.
    #[must_use]
    pub fn name(&self) -> &str {
        self.id.shape().name()
    }

    /// Size of an object in bytes.
    #[inline]
    #[must_use]
    pub fn object_bytes(&self) -> usize {
        self.size
    }
}

sheaves_percpu::with_frame! {
    /// The slow half of [`Cache::alloc`].
    #[cold]
    [] fn alloc_slow(cache: &Cache) -> Option<NonNull<u8>> = alloc_slow_from;
}

extern "C" fn alloc_slow_from(cache: &Cache, frame: Frame) -> Option<NonNull<u8>> {
    let request = AllocRequest { bytes: 0, align: 0, frame };
    let object = cache.zero_if_asked(slow::alloc_slow(cache.id, &request));
    if object.is_none() {
        // For callers in C, which can jump here so.
        errno::set(errno::ENOMEM);
    }
    object
}

/// A cache that cannot be destroyed yet.
#[derive(Debug)]
pub struct DestroyError {
    /// The cache, as usable as before.
    pub cache: Cache,
    /// Objects that are still allocated; 0 when a slot could not be drained. Inside a read section
    /// also those that are free, but in no slab.
    pub objects_out: usize,
}

impl core::fmt::Display for DestroyError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (name, count) = (self.cache.name(), self.objects_out);
        write!(f, "cache {name} cannot be destroyed: {count} objects are still out")
    }
}

impl core::error::Error for DestroyError {}
