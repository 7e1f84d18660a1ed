//! Values that are read under the protection of a guard and replaced as a whole.

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::guard::{Guard, read};
use crate::retired::Retired;

/// A value, or none, that many threads read and some replace.
///
/// ```
/// use sheaves_rcu::{RcuOption, read};
///
/// static LIMIT: RcuOption<u32> = RcuOption::empty();
///
/// assert_eq!(LIMIT.load(&read()), None);
/// assert!(LIMIT.store(8).is_none());
/// assert_eq!(LIMIT.load(&read()), Some(&8));
/// ```
///
/// Reading is one load. See [`RcuCell`] for the form that always has a value.
///
/// # Invariants
/// `pointer` is null or comes from a `Box` that nobody else owns.
pub struct RcuOption<T> {
    pointer: AtomicPtr<T>,
    owned: PhantomData<Box<T>>,
}

// SAFETY: values are dropped wherever the cell is.
unsafe impl<T: Send> Send for RcuOption<T> {}
// SAFETY: a shared one gives shared access to its value, and takes and gives values.
unsafe impl<T: Send + Sync> Sync for RcuOption<T> {}

impl<T> RcuOption<T> {
    /// None.
    #[must_use]
    pub const fn empty() -> RcuOption<T> {
        RcuOption { pointer: AtomicPtr::new(null_mut()), owned: PhantomData }
    }

    /// A value.
    #[must_use]
    pub fn new(value: T) -> RcuOption<T> {
        let pointer = AtomicPtr::new(Box::into_raw(Box::new(value)));
        RcuOption { pointer, owned: PhantomData }
    }

    /// The value of now, which stays valid as long as the guard, whatever becomes of the cell's
    /// value. One load; never blocks; async-signal-safe.
    #[inline]
    pub fn load<'guard>(&'guard self, guard: &'guard Guard) -> Option<&'guard T> {
        let _ = guard;
        // Acquire pairs with the Release of whoever put the value there. [C1]
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: 1. by the invariant null or a value; 2. it is not ended while the guard lasts,
        // since whoever replaces it waits for the guard first; 3. nor is the cell, being borrowed.
        unsafe { pointer.as_ref() }
    }

    /// Puts a value there; what was there before.
    pub fn store(&self, value: T) -> Option<Retired<T>> {
        self.swap(Some(Box::new(value)))
    }

    /// Puts a value there, or none; what was there before. Does not allocate.
    pub fn swap(&self, new: Option<Box<T>>) -> Option<Retired<T>> {
        let new = new.map_or(null_mut(), Box::into_raw);
        // AcqRel: Release pairs with the Acquire in `load`; Acquire with whoever put the old value
        // there, which is ours now. [C1]
        let old = NonNull::new(self.pointer.swap(new, Ordering::AcqRel))?;
        // SAFETY: by the invariant it is from a box, and it is in the cell no more.
        Some(unsafe { Retired::new(old) })
    }

    /// Takes the value out; what was there before.
    pub fn take(&self) -> Option<Retired<T>> {
        self.swap(None)
    }

    /// Puts a value there if `current`, which was loaded under this guard, is there still.
    ///
    /// # Errors
    /// The new value comes back if it is not.
    pub fn compare_exchange<'guard>(
        &self,
        current: Option<&'guard T>,
        new: Option<Box<T>>,
        guard: &'guard Guard,
    ) -> Result<Option<Retired<T>>, Option<Box<T>>> {
        // The guard keeps `current` from being ended, so that its address cannot be another's.
        let _ = guard;
        let expected = current.map_or(null_mut(), |value| core::ptr::from_ref(value).cast_mut());
        let new = new.map_or(null_mut(), Box::into_raw);
        // AcqRel as in `swap`. Relaxed on failure: what is there is not looked at. [C1]
        let pointer = &self.pointer;
        match pointer.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Relaxed) {
            // SAFETY: by the invariant it is from a box, and it is in the cell no more.
            Ok(old) => Ok(NonNull::new(old).map(|old| unsafe { Retired::new(old) })),
            // SAFETY: null, or from the box above, which nobody has seen.
            Err(_) => Err((!new.is_null()).then(|| unsafe { Box::from_raw(new) })),
        }
    }

    /// Replaces the value by what `make` makes of it, again if somebody else was faster.
    pub fn update(&self, mut make: impl FnMut(Option<&T>) -> Option<T>) -> Option<Retired<T>> {
        loop {
            let guard = read();
            let current = self.load(&guard);
            let new = make(current).map(Box::new);
            if let Ok(old) = self.compare_exchange(current, new, &guard) {
                return old;
            }
        }
    }

    /// The value, when nobody else can be at it.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: by the invariant null or a value, which is ours alone while `self` is.
        unsafe { self.pointer.get_mut().as_mut() }
    }
}

impl<T> Default for RcuOption<T> {
    fn default() -> RcuOption<T> {
        RcuOption::empty()
    }
}

impl<T> Drop for RcuOption<T> {
    fn drop(&mut self) {
        if let Some(value) = NonNull::new(*self.pointer.get_mut()) {
            // SAFETY: from a box; references to the value borrow the cell, so there are none.
            drop(unsafe { Box::from_raw(value.as_ptr()) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for RcuOption<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RcuOption").field(&self.load(&read())).finish()
    }
}

/// A value that many threads read and some replace.
///
/// ```
/// use sheaves_rcu::{RcuCell, read};
///
/// let config = RcuCell::new(String::from("slow"));
/// let guard = read();
/// let seen = config.load(&guard);
/// let old = config.store(String::from("fast"));
/// // Who reads keeps what it has.
/// assert_eq!(seen, "slow");
/// assert_eq!(config.load(&guard), "fast");
/// drop(guard);
/// // Nobody reads any more: the old value is ours again.
/// let old = old.synchronize().map_err(|_| "inside a reader")?;
/// assert_eq!(*old, "slow");
/// # Ok::<(), &str>(())
/// ```
///
/// What is replaced comes back as a [`Retired`], which says when it may be dropped.
///
/// # Invariants
/// `value` is never empty.
pub struct RcuCell<T> {
    value: RcuOption<T>,
}

impl<T> RcuCell<T> {
    /// A cell with a value. Allocates, as each replacement by [`RcuCell::store`] does.
    #[must_use]
    pub fn new(value: T) -> RcuCell<T> {
        RcuCell { value: RcuOption::new(value) }
    }

    /// The value of now, which stays valid as long as the guard. One load; never blocks;
    /// async-signal-safe.
    #[inline]
    pub fn load<'guard>(&'guard self, guard: &'guard Guard) -> &'guard T {
        let value = self.value.load(guard);
        // SAFETY: by the invariant there is one.
        unsafe { value.unwrap_unchecked() }
    }

    /// Puts another value there; the one before.
    pub fn store(&self, value: T) -> Retired<T> {
        self.swap(Box::new(value))
    }

    /// Puts another value there; the one before. Does not allocate.
    pub fn swap(&self, new: Box<T>) -> Retired<T> {
        let old = self.value.swap(Some(new));
        // SAFETY: by the invariant there was one.
        unsafe { old.unwrap_unchecked() }
    }

    /// Puts another value there if `current`, which was loaded under this guard, is there still.
    ///
    /// # Errors
    /// The new value comes back if it is not.
    pub fn compare_exchange<'guard>(
        &self,
        current: &'guard T,
        new: Box<T>,
        guard: &'guard Guard,
    ) -> Result<Retired<T>, Box<T>> {
        match self.value.compare_exchange(Some(current), Some(new), guard) {
            // SAFETY: by the invariant there was one.
            Ok(old) => Ok(unsafe { old.unwrap_unchecked() }),
            // SAFETY: it was given above.
            Err(new) => Err(unsafe { new.unwrap_unchecked() }),
        }
    }

    /// Replaces the value by what `make` makes of it, again if somebody else was faster.
    pub fn update(&self, mut make: impl FnMut(&T) -> T) -> Retired<T> {
        loop {
            let guard = read();
            let current = self.load(&guard);
            let new = Box::new(make(current));
            if let Ok(old) = self.compare_exchange(current, new, &guard) {
                return old;
            }
        }
    }

    /// The value, when nobody else can be at it.
    pub fn get_mut(&mut self) -> &mut T {
        let value = self.value.get_mut();
        // SAFETY: by the invariant there is one.
        unsafe { value.unwrap_unchecked() }
    }
}

impl<T: fmt::Debug> fmt::Debug for RcuCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RcuCell").field(&self.load(&read())).finish()
    }
}
