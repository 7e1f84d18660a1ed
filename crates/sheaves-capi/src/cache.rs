//! Object caches.

use core::alloc::Layout;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::{MaybeUninit, transmute};
use core::ptr::{NonNull, null_mut};

use sheaves_slab::raw::{Cache, CacheError, Options};
use sheaves_sys::errno::{EBUSY, EINVAL, ENOMEM, ENOSPC};

use crate::{boxed, refuse, write_as_much};

/// Objects are zeroed when they are allocated.
pub const SHEAVES_CACHE_ZERO: u32 = 1;
/// A freed object stays an object of its cache until a grace period has ended: a reader
/// (sheaves_rcu_read_lock) that still has its address may find it allocated again, but never
/// another type.
pub const SHEAVES_CACHE_TYPESAFE_BY_RCU: u32 = 2;
/// Every call is checked; slower.
pub const SHEAVES_CACHE_DEBUG: u32 = 4;

/// A cache of objects of one size, shared by all threads.
#[derive(Debug)]
pub struct SheavesCache(Cache);

/// # Safety
/// The cache is null or was created.
unsafe fn of<'a>(cache: *mut SheavesCache) -> Option<&'a Cache> {
    // SAFETY: the same contract.
    unsafe { cache.as_ref() }.map(|SheavesCache(cache)| cache)
}

/// Sizes and counts of a cache.
#[repr(C)]
#[derive(Debug)]
pub struct SheavesCacheStatistics {
    /// Bytes of an object.
    pub object_bytes: usize,
    /// Bytes from one object to the next.
    pub stride_bytes: usize,
    /// Bytes of all slabs.
    pub slab_bytes: usize,
    /// Objects in use.
    pub objects_out: usize,
    /// Objects that are deferred for a grace period.
    pub objects_deferred: usize,
    /// Objects that are free.
    pub objects_free: usize,
}

/// Creates a cache of objects of size bytes at multiples of align, a power of two; 0 stands for 16.
/// Both are 64 KiB at most. The name is for reports and may be NULL; 31 bytes of it are kept.
///
/// constructor, unless NULL, is called once for every object when its slab is made, not at every
/// allocation: objects keep their contents from a free to the next allocation. It may allocate,
/// also from other caches, but must not use this cache. flags are SHEAVES_CACHE_* or 0.
///
/// NULL and EINVAL for a wrong argument, also a constructor with SHEAVES_CACHE_ZERO; ENOSPC when
/// 861 caches exist (813 in a hardened process), ENOMEM. May sleep on a lock briefly. After fork()
/// a child may continue to use all caches; that holds for every function below.
/// # Safety
/// name is NULL or a string; constructor may be called in any thread, and writes to the object
/// only.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn sheaves_cache_create(
    name: *const c_char,
    size: usize,
    align: usize,
    flags: u32,
    constructor: Option<unsafe extern "C" fn(object: *mut c_void)>,
) -> *mut SheavesCache {
    let known = SHEAVES_CACHE_ZERO | SHEAVES_CACHE_TYPESAFE_BY_RCU | SHEAVES_CACHE_DEBUG;
    // It has started when the library was loaded: so that a linker takes it from a static library.
    sheaves_control::start();
    let align = if align == 0 { 16 } else { align };
    let Ok(layout) = Layout::from_size_align(size, align) else { return refuse(EINVAL) };
    // Zeros would take the place of what the constructor wrote.
    if flags & !known != 0 || (flags & SHEAVES_CACHE_ZERO != 0 && constructor.is_some()) {
        return refuse(EINVAL);
    }
    let options = Options {
        zero: flags & SHEAVES_CACHE_ZERO != 0,
        typesafe_by_rcu: flags & SHEAVES_CACHE_TYPESAFE_BY_RCU != 0,
        debug: flags & SHEAVES_CACHE_DEBUG != 0,
    };
    // SAFETY: null or a string by the contract.
    let name = if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } };
    let name = name.to_str().unwrap_or("(not UTF-8)");
    let cache = match constructor {
        None => Cache::new(name, layout, options),
        Some(constructor) => {
            type ByPointer = unsafe extern "C" fn(*mut c_void);
            type ByObject = unsafe extern "C" fn(NonNull<u8>);
            // SAFETY: a pointer that is not null is passed as a pointer.
            let constructor = unsafe { transmute::<ByPointer, ByObject>(constructor) };
            // SAFETY: by the contract.
            unsafe { Cache::with_constructor(name, layout, options, constructor) }
        }
    };
    let reason = match cache.map(|cache| boxed(SheavesCache(cache))) {
        Ok(Ok(handle)) => return handle,
        Ok(Err(SheavesCache(cache))) => {
            // Without objects it cannot be refused.
            let _destroyed = cache.destroy();
            ENOMEM
        }
        Err(CacheError::Layout) => EINVAL,
        Err(CacheError::TooMany) => ENOSPC,
        Err(CacheError::OutOfMemory) => ENOMEM,
    };
    refuse(reason)
}

/// Destroys a cache and frees its memory. Interrupts the CPUs that run this process, and waits for
/// grace periods if objects were ever deferred or the cache is type-safe.
///
/// 0; EBUSY when objects are in use or a slot could not be drained, then the cache stays usable;
/// EINVAL for NULL; EDEADLK inside a read section.
///
/// # Safety
/// No other thread uses the cache; after 0 it is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_cache_destroy(cache: *mut SheavesCache) -> c_int {
    if cache.is_null() {
        return EINVAL;
    }
    if sheaves_rcu::is_reading() {
        return sheaves_sys::errno::EDEADLK;
    }
    // SAFETY: made by `sheaves_cache_create`, and not used by other threads.
    let SheavesCache(inner) = unsafe { cache.read() };
    match inner.destroy() {
        Ok(()) => {
            // SAFETY: the handle's memory, whose value was moved away.
            unsafe { sheaves_heap::free(cache.cast()) };
            0
        }
        // The cache is still in the handle's memory; it has no destructor.
        Err(_) => EBUSY,
    }
}

/// Allocates an object; NULL and ENOMEM when memory is out, EINVAL for a NULL cache.
///
/// About a dozen instructions, no lock, no atomic instruction. The slow path may sleep on a lock
/// for microseconds. Not for signal handlers.
///
/// # Safety
/// cache is NULL or was created.
#[unsafe(no_mangle)]
#[must_use]
pub unsafe extern "C" fn sheaves_cache_alloc(cache: *mut SheavesCache) -> *mut c_void {
    // SAFETY: null or valid by the contract.
    let Some(cache) = (unsafe { of(cache) }) else { return refuse(EINVAL) };
    // The slow path sets ENOMEM. It is reached by a jump, so that it sees the caller of this.
    cache.alloc().map_or(null_mut(), |object| object.as_ptr().cast())
}

/// Frees an object; NULL is ignored. As cheap as sheaves_cache_alloc. errno is kept.
///
/// A double free, an object of another cache or an address inside an object aborts the process with
/// one line: at once in a cache with SHEAVES_CACHE_DEBUG, otherwise when the object returns to its
/// slab.
///
/// # Safety
/// The object is of this cache and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_cache_free(cache: *mut SheavesCache, object: *mut c_void) {
    // SAFETY: null or valid by the contract.
    if let (Some(cache), Some(object)) = (unsafe { of(cache) }, NonNull::new(object.cast())) {
        // SAFETY: the same contract.
        unsafe { cache.free(object) };
    }
}

/// Frees an object after a grace period (sheaves_rcu_read_lock), like the kernel's kfree_rcu. NULL
/// is ignored.
///
/// As cheap as sheaves_cache_free: it writes nothing into the object and runs no callback. After
/// the grace period whole sheaves of such objects serve allocations again. When the slot's sheaf is
/// full it takes a short lock, and may start or wake the library's thread. Readers may call it; not
/// for signal handlers. Without memory for a sheaf it waits for a grace period. Inside a read
/// section it cannot wait: then the object is never freed, and the first one is reported in one
/// line.
///
/// # Safety
/// The object is of this cache, and only readers that began before this call still use it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_cache_free_rcu(cache: *mut SheavesCache, object: *mut c_void) {
    // SAFETY: null or valid by the contract.
    if let (Some(cache), Some(object)) = (unsafe { of(cache) }, NonNull::new(object.cast())) {
        // SAFETY: the same contract.
        unsafe { cache.free_rcu(object) };
    }
}

/// Allocates count objects at once, about a nanosecond each, and stores their addresses in objects.
/// Returns their number: less than count only when memory is out, and 0 for NULL. errno is not set.
///
/// # Safety
/// objects has room for count pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_cache_alloc_bulk(
    cache: *mut SheavesCache,
    objects: *mut *mut c_void,
    count: usize,
) -> usize {
    // SAFETY: null or valid by the contract.
    let (Some(cache), false) = (unsafe { of(cache) }, objects.is_null()) else { return 0 };
    let objects = objects.cast::<MaybeUninit<NonNull<u8>>>();
    // SAFETY: room for `count` pointers by the contract.
    cache.alloc_bulk(unsafe { core::slice::from_raw_parts_mut(objects, count) })
}

/// Frees count objects at once. 0; EINVAL, and nothing happens, if any of them is NULL.
///
/// # Safety
/// As for sheaves_cache_free, for each of them; none occurs twice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_cache_free_bulk(
    cache: *mut SheavesCache,
    objects: *const *mut c_void,
    count: usize,
) -> c_int {
    if count == 0 {
        return 0;
    }
    // SAFETY: null or valid by the contract.
    let (Some(cache), false) = (unsafe { of(cache) }, objects.is_null()) else { return EINVAL };
    // SAFETY: `count` pointers by the contract.
    let pointers = unsafe { core::slice::from_raw_parts(objects, count) };
    if pointers.iter().any(|object| object.is_null()) {
        return EINVAL;
    }
    // SAFETY: the same pointers, none of which is null.
    let objects = unsafe { core::slice::from_raw_parts(objects.cast::<NonNull<u8>>(), count) };
    // SAFETY: the same contract.
    unsafe { cache.free_bulk(objects) };
    0
}

/// Gives slabs whose objects are all free back to the heap, which returns them to the kernel after
/// SHEAVES_DECAY_MS or in sheaves_trim, and returns pages of free objects in other slabs to the
/// kernel. Interrupts the CPUs that run this process. May start or wake the library's thread, which
/// releases slabs of a type-stable cache after their readers. 0; EAGAIN when a slot could not be
/// drained; EINVAL for NULL.
///
/// # Safety
/// cache is NULL or was created.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_cache_shrink(cache: *mut SheavesCache) -> c_int {
    // SAFETY: null or valid by the contract.
    let Some(cache) = (unsafe { of(cache) }) else { return EINVAL };
    if cache.shrink() { 0 } else { sheaves_sys::errno::EAGAIN }
}

/// Writes the current sizes and counts of the cache to statistics, as much as the caller's
/// structure has room for: pass sizeof *statistics as bytes. What this library does not know is 0.
/// 0; EINVAL for NULL. Takes the cache's lock.
///
/// # Safety
/// Both are NULL or valid, statistics for bytes bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sheaves_cache_get_statistics(
    cache: *mut SheavesCache,
    statistics: *mut SheavesCacheStatistics,
    bytes: usize,
) -> c_int {
    // SAFETY: null or valid by the contract.
    let (Some(cache), false) = (unsafe { of(cache) }, statistics.is_null() || bytes == 0) else {
        return EINVAL;
    };
    let is = cache.stats();
    let found = SheavesCacheStatistics {
        object_bytes: is.object_bytes,
        stride_bytes: is.stride_bytes,
        slab_bytes: is.slab_bytes,
        objects_out: is.objects_out,
        objects_deferred: is.objects_deferred,
        objects_free: is.objects_in_slots + is.objects_in_depot + is.objects_in_slabs,
    };
    // SAFETY: valid for that many bytes by the contract.
    unsafe { write_as_much(statistics, bytes, &found) };
    0
}
