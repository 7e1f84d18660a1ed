//! Changes of the map.

use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};

use sheaves_rcu::Guard;

use super::RcuHashMap;
use super::address::Address;
use super::closures::{Inside, refuse_inside};
use super::entry::{Entry, Owned};
use super::tables::Chain;
use super::tables::bucket::Found;
use super::tables::copies::Copies;

type Locked<'g, K, V> = Chain<'g, Address<K, V>>;

impl<K: Hash + Eq, V, S: BuildHasher> RcuHashMap<K, V, S> {
    /// Sets the value of a key, and replaces the key, too. Returns the previous value, if there was
    /// one; it is valid as long as the guard. May block as the type's documentation says.
    pub fn insert<'g>(&'g self, key: K, value: V, guard: &'g Guard) -> Option<&'g V> {
        let hash = self.tables.hash(&key);
        if let Some(table) = self.tables.table() {
            table.bucket(hash).prefetch();
        }
        // Before the lock is taken: meanwhile the bucket is loaded, and others need not wait.
        let entry = Owned(Entry::new(key, value));
        let chain = self.tables.lock_or_make(hash, guard);
        // SAFETY: by the invariant of its owner.
        let Some(found) = chain.find(unsafe { &(*entry.0).key }) else {
            self.add(chain, entry, guard);
            return None;
        };
        let (_, old) = self.replace(chain, &found, entry, guard);
        Some(old)
    }

    /// The value of a key; `make` makes it if there is none. `make` runs at most once.
    ///
    /// # Panics
    /// When `make` changes the map.
    pub fn get_or_insert_with<'g>(
        &'g self,
        key: K,
        make: impl FnOnce() -> V,
        guard: &'g Guard,
    ) -> &'g V {
        self.try_insert_with(key, make, guard).unwrap_or_else(|value| value)
    }

    /// Removes an entry; returns its value, valid as long as the guard.
    pub fn remove<'g, Q: Hash + Eq + ?Sized>(&'g self, key: &Q, guard: &'g Guard) -> Option<&'g V>
    where
        K: Borrow<Q>,
    {
        self.remove_entry(key, guard).map(|(_, value)| value)
    }

    /// Replaces the value of a key, or its absence, by what `make` computes from it, and returns
    /// the new value. If `make` returns `None` the entry is removed. No other thread changes the
    /// entry meanwhile. `make` runs once.
    ///
    /// # Panics
    /// When `make` changes the map.
    ///
    /// ```
    /// use sheaves::{map::RcuHashMap, rcu::read};
    ///
    /// let words: RcuHashMap<&str, u32> = RcuHashMap::new();
    /// let guard = read();
    /// for word in ["a", "b", "a"] {
    ///     words.compute(word, |count| Some(count.map_or(1, |count| count + 1)), &guard);
    /// }
    /// assert_eq!(words.get("a", &guard), Some(&2));
    /// assert_eq!(words.compute("b", |_| None, &guard), None);
    /// assert_eq!(words.len(), 1);
    /// ```
    pub fn compute<'g>(
        &'g self,
        key: K,
        make: impl FnOnce(Option<&V>) -> Option<V>,
        guard: &'g Guard,
    ) -> Option<&'g V> {
        let chain = self.tables.lock_or_make(self.tables.hash(&key), guard);
        let Some(found) = chain.find(&key) else {
            // First, so that in any case the key is dropped without the lock.
            let value = self.call(|| make(None))?;
            return Some(self.add(chain, Owned(Entry::new(key, value)), guard));
        };
        // SAFETY: an entry in a chain is not ended while its lock is held.
        let old = unsafe { &(*found.entry()).value };
        let Some(value) = self.call(|| make(Some(old))) else {
            self.take(chain, &found, guard);
            return None;
        };
        let entry = Owned(Entry::new(key, value));
        let (new, _) = self.replace(chain, &found, entry, guard);
        Some(new)
    }

    /// Removes all entries for which `keep` returns false.
    ///
    /// An entry that is replaced meanwhile stays. Keys that are inserted meanwhile may be missed.
    /// `keep` runs without a lock, and may run twice for a key that is removed and inserted again,
    /// or if the table shrinks meanwhile. Each 64 buckets are a read section of their own, so that
    /// grace periods end meanwhile.
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        self.tables.for_each_unit(|walk, guard| {
            for entry in Copies::<_, *mut Entry<K, V>>::new(walk) {
                // SAFETY: it was in the map in the guard's section, so it is not ended before that.
                let Entry { key, value } = unsafe { &*entry };
                if keep(key, value) {
                    continue;
                }
                let Some(chain) = self.tables.lock(self.tables.hash(key), guard) else { return };
                if let Some(found) = chain.find(key).filter(|found| found.entry() == entry) {
                    self.take(chain, &found, guard);
                }
            }
        });
    }

    /// Removes all entries that are in the map at this call. Costs as much for many as for few.
    ///
    /// It takes the table out of the map, and a deferred callback frees that with all entries in
    /// it, in one go; the next insertion makes another table. To other threads all entries
    /// disappear at once.
    ///
    /// A small map keeps its table and is cleared by [`RcuHashMap::retain`], as is one of
    /// [`RcuHashMap::scoped`] whose entries have destructors. There an entry that is replaced
    /// meanwhile stays.
    ///
    /// # Panics
    /// In a closure of this map.
    pub fn clear(&self) {
        refuse_inside(self.tables.address());
        // SAFETY: the entries have no destructor, or are `Send` and `'static`.
        let exchange = || unsafe { self.tables.exchange() };
        if !self.limbo.is_deferred() || !exchange() {
            self.retain(|_, _| false);
        }
    }

    /// Calls a closure of the program while a chain is locked.
    #[inline]
    pub(super) fn call<R>(&self, make: impl FnOnce() -> R) -> R {
        let _inside = Inside::begin(self.tables.address());
        make()
    }

    /// Adds an entry to its chain, which does not contain its key; returns its value.
    #[inline]
    pub(super) fn add<'g>(
        &'g self,
        chain: Locked<'g, K, V>,
        entry: Owned<K, V>,
        _: &'g Guard,
    ) -> &'g V {
        let entry = entry.into_raw();
        self.tables.add(chain, entry);
        // SAFETY: it was in the map in the guard's section, so it is not ended before that.
        unsafe { &(*entry).value }
    }

    /// Replaces an entry of a chain; returns its new value and its old one.
    #[inline]
    pub(super) fn replace<'g>(
        &'g self,
        chain: Locked<'g, K, V>,
        found: &Found<'g, Address<K, V>>,
        entry: Owned<K, V>,
        guard: &'g Guard,
    ) -> (&'g V, &'g V) {
        let (hash, new) = (chain.hash, entry.into_raw());
        self.tables.replace(chain, found, new);
        let old = &self.retire(hash, found.entry(), guard).value;
        // SAFETY: as in `add`.
        (unsafe { &(*new).value }, old)
    }

    /// Removes an entry from its chain; returns it.
    #[inline]
    pub(super) fn take<'g>(
        &'g self,
        chain: Locked<'g, K, V>,
        found: &Found<'g, Address<K, V>>,
        guard: &'g Guard,
    ) -> &'g Entry<K, V> {
        let hash = chain.hash;
        self.tables.take(chain, found);
        self.retire(hash, found.entry(), guard)
    }

    /// Ends an entry that can no longer be found, after the guard.
    #[inline]
    fn retire<'g>(&'g self, hash: u64, entry: *mut Entry<K, V>, _: &'g Guard) -> &'g Entry<K, V> {
        // SAFETY: removed from its chain by this thread, which releases the lock first; the grace
        // period covers the guard's section.
        unsafe { self.limbo.retire(hash, entry) };
        // SAFETY: not ended before the guard is dropped.
        unsafe { &*entry }
    }
}
