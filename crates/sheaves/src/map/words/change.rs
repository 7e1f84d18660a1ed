//! Changes of the map.

use core::hash::BuildHasher;

use sheaves_rcu::read;

use super::super::tables::copies::Copies;
use super::pair::{Pair, Words};
use super::{RcuWordMap, Word};

impl<K: Word, V: Word, S: BuildHasher> RcuWordMap<K, V, S> {
    /// Sets the value of a key. Returns the previous value, if there was one. May block as the
    /// type's documentation says.
    pub fn insert(&self, key: K, value: V) -> Option<V> {
        self.change(key.to_word(), Some(value.to_word()), |_| true).map(V::from_word)
    }

    /// Sets the value of a key that has none.
    ///
    /// ```
    /// use sheaves::map::RcuWordMap;
    ///
    /// let map: RcuWordMap<u64, u64> = RcuWordMap::new();
    /// assert_eq!(map.try_insert(1, 10), Ok(()));
    /// assert_eq!(map.try_insert(1, 20), Err(10));
    /// ```
    ///
    /// # Errors
    /// The value that is there, if the key has one.
    pub fn try_insert(&self, key: K, value: V) -> Result<(), V> {
        let is_vacant = |current: Option<u64>| current.is_none();
        match self.change(key.to_word(), Some(value.to_word()), is_vacant) {
            Some(current) => Err(V::from_word(current)),
            None => Ok(()),
        }
    }

    /// Removes an entry; returns its value.
    pub fn remove(&self, key: &K) -> Option<V> {
        let key = key.to_word();
        let (hash, guard) = (self.tables.hash(&key), read());
        let chain = self.tables.lock(hash, &guard)?;
        let found = chain.search(|words| words.0 == key)?;
        self.tables.take(chain, &found);
        Some(V::from_word(found.content.1))
    }

    /// Replaces the value of a key, if it has one, by what `make` makes of it, and returns the new
    /// value.
    ///
    /// `make` runs without a lock, and again if another thread has changed the value meanwhile.
    pub fn update(&self, key: K, mut make: impl FnMut(V) -> V) -> Option<V> {
        self.compute(key, |value| value.map(&mut make))
    }

    /// Replaces the value of a key, or its absence, by what `make` makes of it, and returns the new
    /// value. If `make` returns `None` the entry is removed.
    ///
    /// `make` runs without a lock, and again if another thread has changed the value meanwhile.
    ///
    /// ```
    /// use sheaves::map::RcuWordMap;
    ///
    /// let counts: RcuWordMap<char, u32> = RcuWordMap::new();
    /// for letter in "aba".chars() {
    ///     counts.compute(letter, |count| Some(count.map_or(1, |count| count + 1)));
    /// }
    /// assert_eq!(counts.get(&'a'), Some(2));
    /// assert_eq!(counts.compute('b', |_| None), None);
    /// assert_eq!(counts.len(), 1);
    /// ```
    pub fn compute(&self, key: K, mut make: impl FnMut(Option<V>) -> Option<V>) -> Option<V> {
        let key = key.to_word();
        let mut old = self.find(key);
        loop {
            let new = make(old.map(V::from_word)).map(V::to_word);
            let current = self.change(key, new, |current| current == old);
            if current == old {
                return new.map(V::from_word);
            }
            old = current;
        }
    }

    /// Returns the value of a key, and replaces it, or its absence, by `new` if that is wanted.
    #[inline(always)]
    fn change(
        &self,
        key: u64,
        new: Option<u64>,
        is_wanted: impl FnOnce(Option<u64>) -> bool,
    ) -> Option<u64> {
        let (hash, guard) = (self.tables.hash(&key), read());
        let chain = match new {
            Some(_) => self.tables.lock_or_make(hash, &guard),
            None => self.tables.lock(hash, &guard)?,
        };
        let found = chain.search(|words| words.0 == key);
        let current = found.as_ref().map(|found| found.content.1);
        if is_wanted(current) {
            match (found, new) {
                (Some(found), Some(new)) => self.tables.replace(chain, &found, (key, new)),
                (Some(found), None) => self.tables.take(chain, &found),
                (None, Some(new)) => self.tables.add(chain, (key, new)),
                (None, None) => {}
            }
        }
        current
    }

    /// Removes all entries for which `keep` returns false.
    ///
    /// An entry whose value changes meanwhile stays. Keys that are inserted meanwhile may be
    /// missed. `keep` runs without a lock, and may run twice for a key that is removed and inserted
    /// again. Each 64 buckets are a read section of their own.
    pub fn retain(&self, mut keep: impl FnMut(K, V) -> bool) {
        self.tables.for_each_unit(|walk, _| {
            for (key, value) in Copies::<Pair, Words>::new(walk) {
                if !keep(K::from_word(key), V::from_word(value)) {
                    // It stays if it has another value now.
                    self.change(key, None, |current| current == Some(value));
                }
            }
        });
    }

    /// Removes all entries that are in the map at this call. Costs as much for many as for few.
    ///
    /// It takes the table out of the map, and a deferred callback frees that; the next insertion
    /// makes another table. To other threads all entries disappear at once. A small map keeps its
    /// table, and is cleared by [`RcuWordMap::retain`].
    pub fn clear(&self) {
        // SAFETY: words end anywhere.
        if !unsafe { self.tables.exchange() } {
            self.retain(|_, _| false);
        }
    }
}
