//! A map and the guard of a read section in one.

use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::iter::FusedIterator;

use sheaves_rcu::{Guard, read};

use super::{Iter, OccupiedError, RcuHashMap};

/// A map in a read section: see [`RcuHashMap::pin`]. Its methods are those of the map, which says
/// what each does; what they return is valid as long as it.
pub struct Pinned<'map, K, V, S> {
    map: &'map RcuHashMap<K, V, S>,
    guard: Guard,
}

impl<K: Hash + Eq, V, S: BuildHasher> RcuHashMap<K, V, S> {
    /// Begins a read section, for calls of the map that need no other guard.
    ///
    /// ```
    /// use sheaves::map::RcuHashMap;
    ///
    /// let sessions: RcuHashMap<u64, &str> = RcuHashMap::new();
    /// let pinned = sessions.pin();
    /// pinned.insert(7, "seven");
    /// assert_eq!(pinned.get(&7), Some(&"seven"));
    /// for (key, value) in &pinned {
    ///     assert_eq!((*key, *value), (7, "seven"));
    /// }
    /// ```
    #[inline]
    pub fn pin(&self) -> Pinned<'_, K, V, S> {
        Pinned { map: self, guard: read() }
    }
}

impl<'map, K, V, S> Pinned<'map, K, V, S> {
    /// The map.
    #[must_use]
    pub fn map(&self) -> &'map RcuHashMap<K, V, S> {
        self.map
    }

    /// The guard of the read section.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

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
}

impl<K: Hash + Eq, V, S: BuildHasher> Pinned<'_, K, V, S> {
    /// See [`RcuHashMap::get`].
    #[inline]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.map.get(key, &self.guard)
    }

    /// See [`RcuHashMap::get_key_value`].
    #[inline]
    pub fn get_key_value<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.map.get_key_value(key, &self.guard)
    }

    /// See [`RcuHashMap::contains_key`].
    #[inline]
    #[must_use]
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.get(key).is_some()
    }

    /// See [`RcuHashMap::iter`].
    pub fn iter(&self) -> Iter<'_, K, V> {
        self.map.iter(&self.guard)
    }

    /// See [`RcuHashMap::keys`].
    pub fn keys(&self) -> impl FusedIterator<Item = &K> {
        self.map.keys(&self.guard)
    }

    /// See [`RcuHashMap::values`].
    pub fn values(&self) -> impl FusedIterator<Item = &V> {
        self.map.values(&self.guard)
    }

    /// See [`RcuHashMap::insert`].
    pub fn insert(&self, key: K, value: V) -> Option<&V> {
        self.map.insert(key, value, &self.guard)
    }

    /// See [`RcuHashMap::try_insert`].
    ///
    /// # Errors
    /// As there.
    pub fn try_insert(&self, key: K, value: V) -> Result<&V, OccupiedError<'_, V>> {
        self.map.try_insert(key, value, &self.guard)
    }

    /// See [`RcuHashMap::try_insert_with`].
    ///
    /// # Errors
    /// As there.
    pub fn try_insert_with(&self, key: K, make: impl FnOnce() -> V) -> Result<&V, &V> {
        self.map.try_insert_with(key, make, &self.guard)
    }

    /// See [`RcuHashMap::get_or_insert`].
    pub fn get_or_insert(&self, key: K, value: V) -> &V {
        self.map.get_or_insert(key, value, &self.guard)
    }

    /// See [`RcuHashMap::get_or_insert_with`].
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> &V {
        self.map.get_or_insert_with(key, make, &self.guard)
    }

    /// See [`RcuHashMap::get_or_insert_ref`].
    pub fn get_or_insert_ref<Q>(&self, key: &Q, make: impl FnOnce() -> V) -> &V
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        self.map.get_or_insert_ref(key, make, &self.guard)
    }

    /// See [`RcuHashMap::update_or_insert`].
    pub fn update_or_insert(&self, key: K, make: impl FnOnce(&V) -> V, value: V) -> &V {
        self.map.update_or_insert(key, make, value, &self.guard)
    }

    /// See [`RcuHashMap::update_or_insert_with`].
    pub fn update_or_insert_with(
        &self,
        key: K,
        make: impl FnOnce(&V) -> V,
        other: impl FnOnce() -> V,
    ) -> &V {
        self.map.update_or_insert_with(key, make, other, &self.guard)
    }

    /// See [`RcuHashMap::update`].
    pub fn update(&self, key: K, make: impl FnOnce(&V) -> V) -> Option<&V> {
        self.map.update(key, make, &self.guard)
    }

    /// See [`RcuHashMap::compute`].
    pub fn compute(&self, key: K, make: impl FnOnce(Option<&V>) -> Option<V>) -> Option<&V> {
        self.map.compute(key, make, &self.guard)
    }

    /// See [`RcuHashMap::remove`].
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.map.remove(key, &self.guard)
    }

    /// See [`RcuHashMap::remove_entry`].
    pub fn remove_entry<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.map.remove_entry(key, &self.guard)
    }

    /// See [`RcuHashMap::remove_if`].
    ///
    /// # Errors
    /// As there.
    pub fn remove_if<Q: Hash + Eq + ?Sized>(
        &self,
        key: &Q,
        is_wanted: impl FnOnce(&K, &V) -> bool,
    ) -> Result<Option<(&K, &V)>, (&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.map.remove_if(key, is_wanted, &self.guard)
    }

    /// See [`RcuHashMap::retain`]. The read section of this lasts meanwhile.
    pub fn retain(&self, keep: impl FnMut(&K, &V) -> bool) {
        self.map.retain(keep);
    }

    /// See [`RcuHashMap::reserve`].
    pub fn reserve(&self, additional: usize) {
        self.map.reserve(additional);
    }

    /// See [`RcuHashMap::clear`].
    pub fn clear(&self) {
        self.map.clear();
    }
}

impl<'a, K: Hash + Eq, V, S: BuildHasher> IntoIterator for &'a Pinned<'_, K, V, S> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;
    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<K, V, S> fmt::Debug for Pinned<'_, K, V, S>
where
    RcuHashMap<K, V, S>: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.map.fmt(f)
    }
}
