//! Caches of Rust values.

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use crate::raw::{self, CacheError, Options};

/// A cache of values of type `T`.
///
/// ```
/// # use sheaves_slab as sheaves;
/// use sheaves::Cache;
///
/// let cache = Cache::<[u32; 6]>::new("vertex")?;
/// let mut vertex = cache.insert([0; 6]);
/// vertex[3] = 7;
/// assert_eq!(vertex.iter().sum::<u32>(), 7);
/// drop(vertex);
/// cache.destroy().expect("every value was dropped");
/// # Ok::<(), sheaves::raw::CacheError>(())
/// ```
pub struct Cache<T> {
    raw: raw::Cache,
    values: PhantomData<fn(T) -> T>,
}

impl<T> Cache<T> {
    /// Creates a cache. Reports use the name.
    ///
    /// # Errors
    /// As [`raw::Cache::new`]; [`CacheError::Layout`] also for types without size.
    pub fn new(name: &str) -> Result<Cache<T>, CacheError> {
        let raw = raw::Cache::new(name, Layout::new::<T>(), Options::default())?;
        Ok(Cache { raw, values: PhantomData })
    }

    /// Moves a value into the cache.
    ///
    /// # Panics
    /// When memory is out; see [`Cache::try_insert`].
    #[inline]
    pub fn insert(&self, value: T) -> CacheBox<'_, T> {
        self.try_insert(value).unwrap_or_else(|_| panic!("out of memory"))
    }

    /// Moves a value into the cache, or returns it when memory is out.
    ///
    /// # Errors
    /// The value, when memory is out.
    #[inline]
    pub fn try_insert(&self, value: T) -> Result<CacheBox<'_, T>, T> {
        let Some(place) = self.raw.alloc() else { return Err(value) };
        let place = place.cast::<T>();
        // SAFETY: the object has T's size and alignment and is ours alone.
        unsafe { place.write(value) };
        Ok(CacheBox { place, cache: self, owns: PhantomData })
    }

    /// The untyped cache, for statistics and to return free memory.
    #[must_use]
    pub fn raw(&self) -> &raw::Cache {
        &self.raw
    }

    /// Destroys the cache. The borrow checker guarantees that no box is alive; a leaked box counts
    /// as an allocated object in the error.
    ///
    /// # Errors
    /// As [`raw::Cache::destroy`].
    pub fn destroy(self) -> Result<(), raw::DestroyError> {
        self.raw.destroy()
    }
}

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("name", &self.raw.name()).finish_non_exhaustive()
    }
}

/// A value in a cache. Dropping the box drops the value and frees the object.
///
/// # Invariants
/// `place` holds an initialised `T` in an object of `cache` that nothing else uses.
pub struct CacheBox<'a, T> {
    place: NonNull<T>,
    cache: &'a Cache<T>,
    owns: PhantomData<T>,
}

// SAFETY: a box owns its value, and any thread may use a cache.
unsafe impl<T: Send> Send for CacheBox<'_, T> {}
// SAFETY: a shared box gives shared access to its value only.
unsafe impl<T: Sync> Sync for CacheBox<'_, T> {}

impl<T> CacheBox<'_, T> {
    /// Moves the value out and frees the object.
    #[must_use]
    pub fn into_inner(self) -> T {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: by the invariant the value is there; it is not read again.
        let value = unsafe { this.place.read() };
        // SAFETY: by the invariant the object is of this cache and ours; it is not used again.
        unsafe { this.cache.raw.free(this.place.cast()) };
        value
    }
}

impl<T> Deref for CacheBox<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: by the invariant; the borrow of the box covers the reference.
        unsafe { self.place.as_ref() }
    }
}

impl<T> DerefMut for CacheBox<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: by the invariant; the unique borrow of the box covers the reference.
        unsafe { self.place.as_mut() }
    }
}

impl<T> Drop for CacheBox<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Frees the object also if the destructor unwinds.
        let _object = Object { place: self.place.cast(), cache: &self.cache.raw };
        // SAFETY: by the invariant the value is there; it is not used again.
        unsafe { self.place.drop_in_place() };
    }
}

/// The object of a box that is dropped, without its value.
///
/// # Invariants
/// `place` is an object of `cache` that nothing else uses.
struct Object<'a> {
    place: NonNull<u8>,
    cache: &'a raw::Cache,
}

impl Drop for Object<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: by the invariant the object is of this cache and ours; it is not used again.
        unsafe { self.cache.free(self.place) };
    }
}

impl<T: fmt::Debug> fmt::Debug for CacheBox<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for CacheBox<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
