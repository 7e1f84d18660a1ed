//! Changes of the map.

use alloc::alloc::handle_alloc_error;
use core::alloc::Layout;
use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use sheaves_rcu::{Guard, read};

use super::RcuHashMap;
use super::bucket::{Found, Held};
use super::closures::{Inside, refuse_inside};
use super::entry::{Entry, Owned};
use super::series;
use super::table::{BUCKETS_MIN, Series, Table};
use super::tags::tag_of;

/// Of the removals that leave a bucket empty, one in this many checks whether the table is too
/// large.
const SHRINK_SAMPLE: u64 = 8;

/// Units that `retain` does in a read section.
const UNITS_RETAINED: usize = 64;

/// A locked chain and its table.
pub(super) struct Chain<'g, K, V> {
    table: &'g Table<Entry<K, V>>,
    held: Held<'g, Entry<K, V>>,
    hash: u64,
}

impl<'g, K: Eq, V> Chain<'g, K, V> {
    /// Searches the chain for a key.
    #[inline(always)]
    pub(super) fn find<Q: Eq + ?Sized>(&self, key: &Q) -> Option<Found<'g, Entry<K, V>>>
    where
        K: Borrow<Q>,
    {
        // SAFETY: entries in a chain are not ended while its lock is held.
        let is_it = |entry: *mut Entry<K, V>| unsafe { (*entry).key.borrow() == key };
        // SAFETY: buckets are not freed while the guard lasts.
        unsafe { self.held.first.find(self.held.word, tag_of(self.hash), is_it) }
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> RcuHashMap<K, V, S> {
    /// Sets the value of a key, and replaces the key, too. Returns the previous value, if there was
    /// one; it is valid as long as the guard. May block as the type's documentation says.
    pub fn insert<'g>(&'g self, key: K, value: V, guard: &'g Guard) -> Option<&'g V> {
        let hash = self.hash(&key);
        if let Some(table) = self.table() {
            table.prefetch(hash);
        }
        // Before the lock is taken: meanwhile the bucket is loaded, and others need not wait.
        let entry = Owned(Entry::new(key, value));
        let chain = self.lock_or_make(hash, guard);
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
        if let Some(value) = self.get(&key, guard) {
            return value;
        }
        let chain = self.lock_or_make(self.hash(&key), guard);
        let Some(found) = chain.find(&key) else {
            // First, so that in any case the key is dropped without the lock.
            let value = self.call(make);
            return self.add(chain, Owned(Entry::new(key, value)), guard);
        };
        // SAFETY: it was in the map in the guard's section, so it is not ended before that.
        unsafe { &(*found.entry).value }
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
        let chain = self.lock_or_make(self.hash(&key), guard);
        let Some(found) = chain.find(&key) else {
            // First, so that in any case the key is dropped without the lock.
            let value = self.call(|| make(None))?;
            return Some(self.add(chain, Owned(Entry::new(key, value)), guard));
        };
        // SAFETY: an entry in a chain is not ended while its lock is held.
        let old = unsafe { &(*found.entry).value };
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
        let mut position = Some(0);
        while position.is_some() {
            let guard = read();
            for _ in 0..UNITS_RETAINED {
                position = position.and_then(|at| self.retain_unit(at, &mut keep, &guard));
            }
        }
    }

    /// Does that for one unit; returns the position of the next one.
    fn retain_unit(
        &self,
        position: usize,
        keep: &mut impl FnMut(&K, &V) -> bool,
        guard: &Guard,
    ) -> Option<usize> {
        let mut all = self.iter(guard);
        let after = all.limit_to(position);
        while let Some(entry) = all.next_entry() {
            // SAFETY: it was in the map in the guard's section, so it is not ended before that.
            let Entry { key, value } = unsafe { &*entry };
            if keep(key, value) {
                continue;
            }
            let chain = self.lock(self.hash(key), guard)?;
            if let Some(found) = chain.find(key).filter(|found| found.entry == entry) {
                self.take(chain, &found, guard);
            }
        }
        after
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
    pub fn clear(&self) {
        if !self.exchange_table() {
            self.retain(|_, _| false);
        }
    }

    /// Clears the map at once; false if that is to be done entry by entry.
    fn exchange_table(&self) -> bool {
        let _guard = read();
        let is_large = |table: &Table<_>| table.buckets() > UNITS_RETAINED;
        if !self.limbo.is_deferred() || !self.table().is_some_and(is_large) {
            return false;
        }
        // AcqRel: Acquire pairs with the Release in `finish` and `make_table`, as that of a load;
        // Release with the Acquire in `table`, of a thread that finds none. [M5]
        let table = self.table.swap(null_mut(), Ordering::AcqRel);
        if !table.is_null() {
            // SAFETY: exchanged here. The entries have no destructor, or are `Send` and `'static`.
            unsafe { series::retire(table) };
        }
        true
    }

    /// Calls a closure of the program while a chain is locked.
    #[inline]
    pub(super) fn call<R>(&self, make: impl FnOnce() -> R) -> R {
        let _inside = Inside::begin(self.address());
        make()
    }

    /// What tells maps apart while they are borrowed.
    #[inline(always)]
    fn address(&self) -> usize {
        (&raw const self.table).addr()
    }

    /// Locks the chain of a hash; `None` without a table. Does its part of a resize.
    #[inline]
    pub(super) fn lock<'g>(&'g self, hash: u64, _: &'g Guard) -> Option<Chain<'g, K, V>> {
        refuse_inside(self.address());
        let mut table = self.table()?;
        if table.is_moving() {
            self.help(table);
        }
        loop {
            if let Some(held) = table.bucket(hash).lock() {
                // SAFETY: tables are not freed while the guard lasts.
                let is_half_marked = || unsafe { table.is_half_marked(hash) };
                if !held.is_taken_over || !is_half_marked() {
                    return Some(Chain { table, held, hash });
                }
                // SAFETY: the thread that marked the first chain is not in this process, or it
                // would hold this lock. So the next table has the entries.
                unsafe { held.mark() };
            }
            // SAFETY: tables are not freed while the guard lasts; one that is marked has a next.
            table = unsafe { table.next() }?;
        }
    }

    #[inline]
    pub(super) fn lock_or_make<'g>(&'g self, hash: u64, guard: &'g Guard) -> Chain<'g, K, V> {
        loop {
            if let Some(chain) = self.lock(hash, guard) {
                return chain;
            }
            self.make_table();
        }
    }

    /// Makes a table of the size that was requested or, without memory for that, a small one.
    #[cold]
    pub(super) fn make_table(&self) {
        // Relaxed: a number.
        let requested = BUCKETS_MIN.max(self.buckets_min.load(Ordering::Relaxed));
        if !self.try_make_table(requested) && !self.try_make_table(BUCKETS_MIN) {
            handle_alloc_error(Layout::new::<Table<Entry<K, V>>>());
        }
    }

    /// Makes a table, unless there is one. False without memory.
    pub(super) fn try_make_table(&self, buckets: usize) -> bool {
        let made = Series::begin(buckets);
        if made.is_null() {
            return false;
        }
        // Release pairs with the Acquire in `table`. Relaxed on failure: ours is not used. [M5]
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        if self.table.compare_exchange(null_mut(), made, release, relaxed).is_err() {
            // SAFETY: made above, and no other thread knows it.
            unsafe { series::end(made, |_: *mut Entry<K, V>| {}) };
        }
        true
    }

    /// Adds an entry to its chain, which does not contain its key; returns its value.
    #[inline]
    pub(super) fn add<'g>(
        &'g self,
        chain: Chain<'g, K, V>,
        entry: Owned<K, V>,
        _: &'g Guard,
    ) -> &'g V {
        let Chain { table, mut held, hash } = chain;
        let entry = entry.into_raw();
        // SAFETY: buckets are not freed during the guard's section.
        let was_full = unsafe { held.add(tag_of(hash), table.place(entry, hash)) };
        drop(held);
        table.count().add(1);
        if was_full {
            self.grow(table);
        }
        // SAFETY: it was in the map in the guard's section, so it is not ended before that.
        unsafe { &(*entry).value }
    }

    /// Replaces an entry of a chain; returns its new value and its old one.
    #[inline]
    pub(super) fn replace<'g>(
        &'g self,
        mut chain: Chain<'g, K, V>,
        found: &Found<'g, Entry<K, V>>,
        entry: Owned<K, V>,
        guard: &'g Guard,
    ) -> (&'g V, &'g V) {
        let (hash, new) = (chain.hash, entry.into_raw());
        chain.held.replace(found, chain.table.place(new, hash));
        drop(chain);
        let old = &self.retire(hash, found.entry, guard).value;
        // SAFETY: as in `add`.
        (unsafe { &(*new).value }, old)
    }

    /// Removes an entry from its chain; returns it.
    #[inline]
    pub(super) fn take<'g>(
        &'g self,
        chain: Chain<'g, K, V>,
        found: &Found<'g, Entry<K, V>>,
        guard: &'g Guard,
    ) -> &'g Entry<K, V> {
        let Chain { table, mut held, hash } = chain;
        let is_empty = held.remove(found);
        drop(held);
        table.count().sub(1);
        if is_empty && (hash >> 32) % SHRINK_SAMPLE == 0 {
            self.shrink(table);
        }
        self.retire(hash, found.entry, guard)
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
