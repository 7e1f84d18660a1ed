//! Values that are read under a guard and replaced as a whole.

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use super::retired::Retired;
use crate::reader::guard::{Guard, read};

/// A value, or none, that many threads read and some replace.
///
/// ```
/// # mod sheaves { pub use sheaves_rcu as rcu; }
/// use sheaves::rcu::{RcuOption, read};
///
/// static LIMIT: RcuOption<u32> = RcuOption::empty();
///
/// assert_eq!(LIMIT.load(&read()), None);
/// assert!(LIMIT.store(8).is_none());
/// assert_eq!(LIMIT.load(&read()), Some(&8));
/// ```
///
/// [`RcuCell`] is the form that always has a value.
///
/// # Invariants
/// `pointer` is null or from a `Box` that this cell owns.
pub struct RcuOption<T> {
    pointer: AtomicPtr<T>,
    owned: PhantomData<Box<T>>,
}

// SAFETY: the value is dropped wherever the cell is dropped.
unsafe impl<T: Send> Send for RcuOption<T> {}
// SAFETY: `&RcuOption` gives shared access to the value, and moves values in and out.
unsafe impl<T: Send + Sync> Sync for RcuOption<T> {}

impl<T> RcuOption<T> {
    /// A cell without a value.
    #[must_use]
    pub const fn empty() -> RcuOption<T> {
        RcuOption { pointer: AtomicPtr::new(null_mut()), owned: PhantomData }
    }

    /// A cell with a value.
    #[must_use]
    pub fn new(value: T) -> RcuOption<T> {
        let pointer = AtomicPtr::new(Box::into_raw(Box::new(value)));
        RcuOption { pointer, owned: PhantomData }
    }

    /// The current value, valid as long as the guard. One load; never blocks; async-signal-safe.
    #[inline]
    pub fn load<'guard>(&'guard self, guard: &'guard Guard) -> Option<&'guard T> {
        let _ = guard;
        // Acquire pairs with the Release of the thread that stored the value. [C1]
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: 1. null or a value, by the invariant; 2. it is not freed while the guard lasts,
        // since that needs a grace period; 3. nor by the cell, which is borrowed.
        unsafe { pointer.as_ref() }
    }

    /// A clone of the current value, if there is one: see [`RcuCell::load_full`].
    #[must_use]
    pub fn load_full(&self) -> Option<T>
    where
        T: Clone,
    {
        self.load(&read()).cloned()
    }

    /// The value, without a guard: no other thread uses the cell.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: null or a value, by the invariant; references to it borrow the cell.
        unsafe { self.pointer.get_mut().as_mut() }
    }

    /// Ends the cell and returns its value.
    #[must_use]
    pub fn into_inner(mut self) -> Option<Box<T>> {
        let pointer = core::mem::replace(self.pointer.get_mut(), null_mut());
        // SAFETY: from a box, by the invariant; references to the value borrow the cell.
        (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
    }
}

impl<T: Send + 'static> RcuOption<T> {
    /// Replaces the value. Returns the previous one. Allocates a box; never blocks.
    pub fn store(&self, value: T) -> Option<Retired<T>> {
        self.swap(Some(Box::new(value)))
    }

    /// Replaces the value. The previous one is dropped later, see [`Retired::defer`].
    pub fn set(&self, value: T) {
        if let Some(old) = self.store(value) {
            old.defer();
        }
    }

    /// Replaces or removes the value. Returns the previous one. Neither allocates nor blocks.
    pub fn swap(&self, new: Option<Box<T>>) -> Option<Retired<T>> {
        let new = new.map_or(null_mut(), Box::into_raw);
        // AcqRel: Release pairs with the Acquire in `load`; Acquire with the Release of the thread
        // that stored the old value, which the caller owns now. [C1]
        let old = NonNull::new(self.pointer.swap(new, Ordering::AcqRel))?;
        // SAFETY: from a box, by the invariant, and no longer in the cell.
        Some(unsafe { Retired::new(old) })
    }

    /// Removes the value, and returns it. Neither allocates nor blocks.
    pub fn take(&self) -> Option<Retired<T>> {
        self.swap(None)
    }

    /// Replaces the value if it is still `current`, which was loaded under this guard. Returns the
    /// previous one. Neither allocates nor blocks.
    ///
    /// # Errors
    /// Returns `new` if the value has changed.
    pub fn compare_exchange<'guard>(
        &self,
        current: Option<&'guard T>,
        new: Option<Box<T>>,
        guard: &'guard Guard,
    ) -> Result<Option<Retired<T>>, Option<Box<T>>> {
        // The guard keeps `current` alive, so its address cannot be reused for another value.
        let _ = guard;
        let expected = current.map_or(null_mut(), |value| core::ptr::from_ref(value).cast_mut());
        let new = new.map_or(null_mut(), Box::into_raw);
        // AcqRel as in `swap`. Relaxed on failure: the value found is not used. [C1]
        let pointer = &self.pointer;
        match pointer.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Relaxed) {
            // SAFETY: from a box, by the invariant, and no longer in the cell.
            Ok(old) => Ok(NonNull::new(old).map(|old| unsafe { Retired::new(old) })),
            // SAFETY: null, or from the box above, which was never shared.
            Err(_) => Err((!new.is_null()).then(|| unsafe { Box::from_raw(new) })),
        }
    }

    /// Replaces the value by the result of `make`, and returns the previous one. If another thread
    /// replaces it first, calls `make` again. Allocates each time. `make` runs in a read section.
    #[doc(alias = "rcu")]
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
}

impl<T> Default for RcuOption<T> {
    fn default() -> RcuOption<T> {
        RcuOption::empty()
    }
}

/// A cell with a value.
impl<T> From<T> for RcuOption<T> {
    fn from(value: T) -> RcuOption<T> {
        RcuOption::new(value)
    }
}

impl<T> Drop for RcuOption<T> {
    fn drop(&mut self) {
        if let Some(value) = NonNull::new(*self.pointer.get_mut()) {
            // SAFETY: from a box; references to the value borrow the cell, so none are left.
            drop(unsafe { Box::from_raw(value.as_ptr()) });
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for RcuOption<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RcuOption").field(&self.load(&read())).finish()
    }
}

/// Of [`RcuCell`]: that its value is never empty.
const NEVER_EMPTY: &str = "a cell without a value";

/// A value that many threads read and some replace.
///
/// ```
/// # mod sheaves { pub use sheaves_rcu as rcu; }
/// use sheaves::rcu::{RcuCell, read};
///
/// let config = RcuCell::new(String::from("slow"));
/// let guard = read();
/// let seen = config.load(&guard);
/// let old = config.store(String::from("fast"));
/// // The reader keeps the value that it loaded.
/// assert_eq!((seen.as_str(), config.load(&guard).as_str()), ("slow", "fast"));
/// drop(guard);
/// // No section is open any more: the old value comes back.
/// assert_eq!(*old.synchronize().map_err(|_| "inside a reader")?, "slow");
/// # Ok::<(), &str>(())
/// ```
///
/// The methods are those of [`RcuOption`], which says what each costs. A `static` cell is an
/// [`RcuOption`], or in a `std::sync::LazyLock`.
///
/// # Invariants
/// `value` is never empty.
pub struct RcuCell<T> {
    value: RcuOption<T>,
}

impl<T> RcuCell<T> {
    /// A cell with a value. Allocates a box.
    #[must_use]
    pub fn new(value: T) -> RcuCell<T> {
        RcuCell { value: RcuOption::new(value) }
    }

    /// The current value, see [`RcuOption::load`].
    #[inline]
    pub fn load<'guard>(&'guard self, guard: &'guard Guard) -> &'guard T {
        // SAFETY: the cell always has a value, by the invariant.
        unsafe { self.value.load(guard).unwrap_unchecked() }
    }

    /// A clone of the current value: of an `Arc`, for one, which outlives every guard.
    ///
    /// ```
    /// # mod sheaves { pub use sheaves_rcu as rcu; }
    /// use std::sync::Arc;
    /// use sheaves::rcu::RcuCell;
    ///
    /// let names = RcuCell::new(Arc::new(vec!["a"]));
    /// let all: Arc<Vec<&str>> = names.load_full();
    /// names.set(Arc::new(vec![]));
    /// assert_eq!(*all, ["a"]);
    /// ```
    #[must_use]
    pub fn load_full(&self) -> T
    where
        T: Clone,
    {
        self.load(&read()).clone()
    }

    /// A view of a part of the value, whichever that is when it is loaded.
    ///
    /// ```
    /// # mod sheaves { pub use sheaves_rcu as rcu; }
    /// use sheaves::rcu::{RcuCell, read};
    ///
    /// let size = RcuCell::new((80, 25));
    /// let width = size.map(|size| &size.0);
    /// size.set((120, 25));
    /// assert_eq!(*width.load(&read()), 120);
    /// ```
    pub fn map<U: ?Sized, F: Fn(&T) -> &U>(&self, project: F) -> Projection<'_, T, F> {
        Projection { cell: self, project }
    }

    /// The value, without a guard: no other thread uses the cell.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut().expect(NEVER_EMPTY)
    }

    /// Ends the cell and returns its value.
    ///
    /// ```
    /// # mod sheaves { pub use sheaves_rcu as rcu; }
    /// assert_eq!(sheaves::rcu::RcuCell::new(7).into_inner(), 7);
    /// ```
    #[must_use]
    pub fn into_inner(self) -> T {
        *self.value.into_inner().expect(NEVER_EMPTY)
    }
}

impl<T: Send + 'static> RcuCell<T> {
    /// Replaces the value, see [`RcuOption::store`].
    pub fn store(&self, value: T) -> Retired<T> {
        self.swap(Box::new(value))
    }

    /// Replaces the value. The previous one is dropped later, see [`Retired::defer`].
    ///
    /// ```
    /// # mod sheaves { pub use sheaves_rcu as rcu; }
    /// use sheaves::rcu::{RcuCell, read};
    ///
    /// let limit = RcuCell::from(8);
    /// let guard = read();
    /// let before = limit.load(&guard);
    /// limit.set(9);
    /// assert_eq!((*before, *limit.load(&guard)), (8, 9));
    /// ```
    pub fn set(&self, value: T) {
        self.store(value).defer();
    }

    /// Replaces the value, see [`RcuOption::swap`].
    pub fn swap(&self, new: Box<T>) -> Retired<T> {
        self.value.swap(Some(new)).expect(NEVER_EMPTY)
    }

    /// Replaces the value if it is still `current`, see [`RcuOption::compare_exchange`].
    ///
    /// # Errors
    /// Returns `new` if the value has changed.
    pub fn compare_exchange<'guard>(
        &self,
        current: &'guard T,
        new: Box<T>,
        guard: &'guard Guard,
    ) -> Result<Retired<T>, Box<T>> {
        let exchanged = self.value.compare_exchange(Some(current), Some(new), guard);
        exchanged.map(|old| old.expect(NEVER_EMPTY)).map_err(|new| new.expect(NEVER_EMPTY))
    }

    /// Replaces the value by the result of `make`, see [`RcuOption::update`].
    ///
    /// ```
    /// # mod sheaves { pub use sheaves_rcu as rcu; }
    /// use sheaves::rcu::{RcuCell, read};
    ///
    /// let names = RcuCell::<Vec<&str>>::default();
    /// names.update(|old| [old.as_slice(), &["b"]].concat()).defer();
    /// assert_eq!(*names.load(&read()), ["b"]);
    /// ```
    #[doc(alias = "rcu")]
    pub fn update(&self, mut make: impl FnMut(&T) -> T) -> Retired<T> {
        self.value.update(|current| current.map(&mut make)).expect(NEVER_EMPTY)
    }
}

impl<T: Default> Default for RcuCell<T> {
    fn default() -> RcuCell<T> {
        RcuCell::new(T::default())
    }
}

impl<T> From<T> for RcuCell<T> {
    fn from(value: T) -> RcuCell<T> {
        RcuCell::new(value)
    }
}

/// A part of the value of a cell, see [`RcuCell::map`].
#[derive(Debug, Clone, Copy)]
pub struct Projection<'cell, T, F> {
    cell: &'cell RcuCell<T>,
    project: F,
}

impl<'cell, T, F> Projection<'cell, T, F> {
    /// That part of the current value, valid as long as the guard.
    #[inline]
    pub fn load<'guard, U: ?Sized + 'guard>(&self, guard: &'guard Guard) -> &'guard U
    where
        F: Fn(&T) -> &U,
        'cell: 'guard,
    {
        (self.project)(self.cell.load(guard))
    }
}

impl<T: fmt::Debug> fmt::Debug for RcuCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RcuCell").field(&self.load(&read())).finish()
    }
}
