//! Changes that depend on what is there.

use alloc::borrow::ToOwned;
use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};

use sheaves_rcu::Guard;

use super::RcuHashMap;
use super::entry::{Entry, Owned};

/// The key had a value: see [`RcuHashMap::try_insert`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OccupiedError<'g, V> {
    /// The value that is there.
    pub current: &'g V,
    /// The value that was not inserted.
    pub not_inserted: V,
}

impl<V: fmt::Debug> fmt::Display for OccupiedError<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OccupiedError { current, not_inserted } = self;
        write!(f, "{not_inserted:?} was not inserted: the key has the value {current:?}")
    }
}

impl<V: fmt::Debug> core::error::Error for OccupiedError<'_, V> {}

impl<K: Hash + Eq, V, S: BuildHasher> RcuHashMap<K, V, S> {
    /// Sets the value of a key that has none, and returns it.
    ///
    /// ```
    /// use sheaves::{map::RcuHashMap, rcu::read};
    ///
    /// let map: RcuHashMap<u64, &str> = RcuHashMap::new();
    /// let guard = read();
    /// assert_eq!(map.try_insert(1, "a", &guard), Ok(&"a"));
    /// let error = map.try_insert(1, "b", &guard).unwrap_err();
    /// assert_eq!((*error.current, error.not_inserted), ("a", "b"));
    /// ```
    ///
    /// # Errors
    /// Both values, if the key has one.
    pub fn try_insert<'g>(
        &'g self,
        key: K,
        value: V,
        guard: &'g Guard,
    ) -> Result<&'g V, OccupiedError<'g, V>> {
        let chain = self.tables.lock_or_make(self.tables.hash(&key), guard);
        let Some(found) = chain.find(&key) else {
            return Ok(self.add(chain, Owned(Entry::new(key, value)), guard));
        };
        // SAFETY: it was in the map in the guard's section, so it is not ended before that.
        let current = unsafe { &(*found.entry()).value };
        Err(OccupiedError { current, not_inserted: value })
    }

    /// [`RcuHashMap::try_insert`] of the value that `make` makes, which runs only if the key has
    /// none.
    ///
    /// # Errors
    /// The value of the key, if it has one.
    ///
    /// # Panics
    /// When `make` changes the map.
    pub fn try_insert_with<'g>(
        &'g self,
        key: K,
        make: impl FnOnce() -> V,
        guard: &'g Guard,
    ) -> Result<&'g V, &'g V> {
        if let Some(value) = self.get(&key, guard) {
            return Err(value);
        }
        let chain = self.tables.lock_or_make(self.tables.hash(&key), guard);
        let Some(found) = chain.find(&key) else {
            // First, so that in any case the key is dropped without the lock.
            let value = self.call(make);
            return Ok(self.add(chain, Owned(Entry::new(key, value)), guard));
        };
        // SAFETY: it was in the map in the guard's section, so it is not ended before that.
        Err(unsafe { &(*found.entry()).value })
    }

    /// The value of a key, or this one, which it gets if it has none.
    ///
    /// ```
    /// use sheaves::{map::RcuHashMap, rcu::read};
    ///
    /// let map: RcuHashMap<u64, &str> = RcuHashMap::new();
    /// let guard = read();
    /// assert_eq!(map.get_or_insert(1, "a", &guard), &"a");
    /// assert_eq!(map.get_or_insert(1, "b", &guard), &"a");
    /// ```
    pub fn get_or_insert<'g>(&'g self, key: K, value: V, guard: &'g Guard) -> &'g V {
        self.try_insert(key, value, guard).unwrap_or_else(|error| error.current)
    }

    /// [`RcuHashMap::get_or_insert_with`] for a borrowed key, which is cloned only if a first
    /// lookup finds no value.
    ///
    /// ```
    /// use sheaves::{map::RcuHashMap, rcu::read};
    ///
    /// let lengths: RcuHashMap<String, usize> = RcuHashMap::new();
    /// let word = "word";
    /// assert_eq!(lengths.get_or_insert_ref(word, || word.len(), &read()), &4);
    /// ```
    ///
    /// # Panics
    /// When `make` changes the map.
    pub fn get_or_insert_ref<'g, Q>(
        &'g self,
        key: &Q,
        make: impl FnOnce() -> V,
        guard: &'g Guard,
    ) -> &'g V
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(value) = self.get(key, guard) {
            return value;
        }
        self.get_or_insert_with(key.to_owned(), make, guard)
    }

    /// Replaces the value of a key, if it has one, by what `make` computes from it, and returns the
    /// new value. No other thread changes the entry meanwhile. `make` runs at most once.
    ///
    /// ```
    /// use sheaves::{map::RcuHashMap, rcu::read};
    ///
    /// let hits: RcuHashMap<&str, u64> = RcuHashMap::new();
    /// let guard = read();
    /// assert_eq!(hits.update("a", |hits| hits + 1, &guard), None);
    /// hits.insert("a", 1, &guard);
    /// assert_eq!(hits.update("a", |hits| hits + 1, &guard), Some(&2));
    /// ```
    ///
    /// # Panics
    /// When `make` changes the map.
    pub fn update<'g>(
        &'g self,
        key: K,
        make: impl FnOnce(&V) -> V,
        guard: &'g Guard,
    ) -> Option<&'g V> {
        // If it is not called, it is dropped without the lock.
        let mut make = Some(make);
        let make = |value: &V| make.take().map(|make| make(value));
        self.compute(key, |value| value.and_then(make), guard)
    }

    /// Replaces the value of a key by what `make` computes from it, or sets it to `value` if it has
    /// none. Returns the new value. No other thread changes the entry meanwhile.
    ///
    /// ```
    /// use sheaves::map::RcuHashMap;
    ///
    /// let hits: RcuHashMap<&str, u64> = RcuHashMap::new();
    /// let pinned = hits.pin();
    /// assert_eq!(pinned.update_or_insert("a", |hits| hits + 1, 1), &1);
    /// assert_eq!(pinned.update_or_insert("a", |hits| hits + 1, 1), &2);
    /// ```
    ///
    /// # Panics
    /// When `make` changes the map.
    pub fn update_or_insert<'g>(
        &'g self,
        key: K,
        make: impl FnOnce(&V) -> V,
        value: V,
        guard: &'g Guard,
    ) -> &'g V {
        self.update_or_insert_with(key, make, || value, guard)
    }

    /// [`RcuHashMap::update_or_insert`] of the value that `other` makes, which runs only if the key
    /// has none.
    ///
    /// # Panics
    /// When a closure changes the map.
    pub fn update_or_insert_with<'g>(
        &'g self,
        key: K,
        make: impl FnOnce(&V) -> V,
        other: impl FnOnce() -> V,
        guard: &'g Guard,
    ) -> &'g V {
        // The one that is not called is dropped without the lock, with the value that it may own.
        let (mut make, mut other) = (Some(make), Some(other));
        let make = |old: Option<&V>| match old {
            Some(old) => make.take().map(|make| make(old)),
            None => other.take().map(|other| other()),
        };
        self.compute(key, make, guard).expect("the closure returns a value")
    }

    /// Removes an entry; returns its key and its value, valid as long as the guard.
    ///
    /// ```
    /// use sheaves::{map::RcuHashMap, rcu::read};
    ///
    /// let map: RcuHashMap<String, u64> = RcuHashMap::new();
    /// let guard = read();
    /// map.insert(String::from("a"), 1, &guard);
    /// assert_eq!(map.remove_entry("a", &guard), Some((&String::from("a"), &1)));
    /// assert_eq!(map.remove_entry("a", &guard), None);
    /// ```
    pub fn remove_entry<'g, Q: Hash + Eq + ?Sized>(
        &'g self,
        key: &Q,
        guard: &'g Guard,
    ) -> Option<(&'g K, &'g V)>
    where
        K: Borrow<Q>,
    {
        let chain = self.tables.lock(self.tables.hash(key), guard)?;
        let found = chain.find(key)?;
        let entry = self.take(chain, &found, guard);
        Some((&entry.key, &entry.value))
    }

    /// Removes an entry for which `is_wanted` returns true; no other thread changes it meanwhile.
    /// `is_wanted` runs at most once.
    ///
    /// ```
    /// use sheaves::{map::RcuHashMap, rcu::read};
    ///
    /// let map: RcuHashMap<u64, &str> = RcuHashMap::new();
    /// let guard = read();
    /// map.insert(1, "a", &guard);
    /// assert_eq!(map.remove_if(&1, |_, value| value.is_empty(), &guard), Err((&1, &"a")));
    /// assert_eq!(map.remove_if(&1, |key, _| *key == 1, &guard), Ok(Some((&1, &"a"))));
    /// assert_eq!(map.remove_if(&1, |_, _| true, &guard), Ok(None));
    /// ```
    ///
    /// # Errors
    /// The entry that stays.
    ///
    /// # Panics
    /// When `is_wanted` changes the map.
    pub fn remove_if<'g, Q: Hash + Eq + ?Sized>(
        &'g self,
        key: &Q,
        is_wanted: impl FnOnce(&K, &V) -> bool,
        guard: &'g Guard,
    ) -> Result<Option<(&'g K, &'g V)>, (&'g K, &'g V)>
    where
        K: Borrow<Q>,
    {
        let Some(chain) = self.tables.lock(self.tables.hash(key), guard) else { return Ok(None) };
        let Some(found) = chain.find(key) else { return Ok(None) };
        // SAFETY: it was in the map in the guard's section, so it is not ended before that.
        let entry = unsafe { &*found.entry() };
        let entry = (&entry.key, &entry.value);
        if !self.call(|| is_wanted(entry.0, entry.1)) {
            return Err(entry);
        }
        self.take(chain, &found, guard);
        Ok(Some(entry))
    }
}
