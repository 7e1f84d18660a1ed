//! A set of the map's keys.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::iter::FusedIterator;

use sheaves_rcu::{Guard, read};

use super::{DefaultHashBuilder, RcuHashMap};

/// A concurrent hash set for many readers: an [`RcuHashMap`] without values, whose documentation
/// says what its calls cost.
///
/// ```
/// use sheaves::{map::RcuHashSet, rcu::read};
///
/// let seen: RcuHashSet<String> = RcuHashSet::new();
/// let guard = read();
/// assert!(seen.insert(String::from("a"), &guard));
/// assert!(!seen.insert(String::from("a"), &guard));
/// assert!(seen.contains("a") && seen.remove("a", &guard) && seen.is_empty());
/// ```
pub struct RcuHashSet<T, S = DefaultHashBuilder> {
    map: RcuHashMap<T, (), S>,
}

impl<T: Send + 'static, S> RcuHashSet<T, S> {
    /// See [`RcuHashMap::new`].
    #[must_use]
    pub fn new() -> RcuHashSet<T, S>
    where
        S: Default,
    {
        RcuHashSet { map: RcuHashMap::new() }
    }

    /// See [`RcuHashMap::with_hasher`].
    #[must_use]
    pub const fn with_hasher(hasher: S) -> RcuHashSet<T, S> {
        RcuHashSet { map: RcuHashMap::with_hasher(hasher) }
    }

    /// See [`RcuHashMap::with_capacity`].
    #[must_use]
    pub fn with_capacity(capacity: usize) -> RcuHashSet<T, S>
    where
        S: Default,
    {
        RcuHashSet { map: RcuHashMap::with_capacity(capacity) }
    }

    /// See [`RcuHashMap::with_capacity_and_hasher`].
    #[must_use]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> RcuHashSet<T, S> {
        RcuHashSet { map: RcuHashMap::with_capacity_and_hasher(capacity, hasher) }
    }
}

impl<T, S> RcuHashSet<T, S> {
    /// See [`RcuHashMap::len`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// See [`RcuHashMap::is_empty`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// See [`RcuHashMap::capacity`].
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.map.capacity()
    }
}

impl<T: Hash + Eq, S: BuildHasher> RcuHashSet<T, S> {
    /// True if the value is in the set. Uses a read section of its own.
    #[inline]
    #[must_use]
    pub fn contains<Q: Hash + Eq + ?Sized>(&self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.map.contains_key(value)
    }

    /// The value of the set that is equal, valid as long as the guard.
    #[inline]
    pub fn get<'g, Q: Hash + Eq + ?Sized>(&'g self, value: &Q, guard: &'g Guard) -> Option<&'g T>
    where
        T: Borrow<Q>,
    {
        self.map.get_key_value(value, guard).map(|(value, ())| value)
    }

    /// All values, as [`RcuHashMap::iter`] returns entries.
    pub fn iter<'g>(&'g self, guard: &'g Guard) -> impl FusedIterator<Item = &'g T> {
        self.map.keys(guard)
    }

    /// Inserts a value; false if an equal one is there, which stays.
    pub fn insert(&self, value: T, guard: &Guard) -> bool {
        self.map.try_insert(value, (), guard).is_ok()
    }

    /// Removes a value; false if it was not there.
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, value: &Q, guard: &Guard) -> bool
    where
        T: Borrow<Q>,
    {
        self.map.remove(value, guard).is_some()
    }

    /// Removes a value and returns it, valid as long as the guard.
    pub fn take<'g, Q: Hash + Eq + ?Sized>(&'g self, value: &Q, guard: &'g Guard) -> Option<&'g T>
    where
        T: Borrow<Q>,
    {
        self.map.remove_entry(value, guard).map(|(value, ())| value)
    }

    /// See [`RcuHashMap::reserve`].
    pub fn reserve(&self, additional: usize) {
        self.map.reserve(additional);
    }

    /// The hasher.
    #[must_use]
    pub fn hasher(&self) -> &S {
        self.map.hasher()
    }

    /// See [`RcuHashMap::retain`].
    pub fn retain(&self, mut keep: impl FnMut(&T) -> bool) {
        self.map.retain(|value, ()| keep(value));
    }

    /// See [`RcuHashMap::clear`].
    pub fn clear(&self) {
        self.map.clear();
    }
}

impl<T: Send + 'static, S: Default> Default for RcuHashSet<T, S> {
    fn default() -> RcuHashSet<T, S> {
        RcuHashSet::with_hasher(S::default())
    }
}

impl<T: Hash + Eq + fmt::Debug, S: BuildHasher> fmt::Debug for RcuHashSet<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter(&read())).finish()
    }
}

impl<T: Hash + Eq + Clone, S: BuildHasher + Clone> Clone for RcuHashSet<T, S> {
    fn clone(&self) -> RcuHashSet<T, S> {
        RcuHashSet { map: self.map.clone() }
    }
}

impl<T: Hash + Eq, S: BuildHasher> PartialEq for RcuHashSet<T, S> {
    fn eq(&self, other: &RcuHashSet<T, S>) -> bool {
        self.map == other.map
    }
}

impl<T: Hash + Eq, S: BuildHasher> Eq for RcuHashSet<T, S> {}

impl<T: Hash + Eq, S: BuildHasher> Extend<T> for RcuHashSet<T, S> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        values.into_iter().for_each(|value| _ = self.insert(value, &read()));
    }
}

impl<T: Hash + Eq + Send + 'static, S: BuildHasher + Default> FromIterator<T> for RcuHashSet<T, S> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> RcuHashSet<T, S> {
        let mut set = RcuHashSet::default();
        set.extend(values);
        set
    }
}

impl<T, S, const COUNT: usize> From<[T; COUNT]> for RcuHashSet<T, S>
where
    T: Hash + Eq + Send + 'static,
    S: BuildHasher + Default,
{
    fn from(values: [T; COUNT]) -> RcuHashSet<T, S> {
        values.into_iter().collect()
    }
}
