//! The tables of both kinds of maps: which one is in use, and changes of its chains.

pub(super) mod bucket;
pub(super) mod copies;
pub(super) mod lock;
mod pages;
pub(super) mod resize;
pub(super) mod series;
pub(super) mod spread;
pub(super) mod table;
pub(super) mod tags;
pub(super) mod walk;

use alloc::alloc::handle_alloc_error;
use core::alloc::Layout;
use core::hash::{BuildHasher, Hash};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use sheaves_rcu::{Guard, read};

use super::closures::refuse_inside;
use bucket::{Bucket, Found, Held, Place};
use copies::{Copies, Part};
use lock::MOVED;
use spread::spread;
use table::{BUCKETS_MIN, Rehash, Series, Table};
use tags::tag_of;
use walk::Walk;

/// Of the removals that leave a bucket empty, one in this many checks whether the table is too
/// large.
const SHRINK_SAMPLE: u64 = 8;
/// Of the insertions that make a chain longer, one in this many checks whether the table is too
/// small, unless it has few buckets.
const GROWTH_SAMPLE: usize = 8;
/// Units of a read section, where all are visited.
const UNITS_IN_SECTION: usize = 64;
/// A table with more buckets is exchanged when the map is cleared.
const BUCKETS_KEPT_MAX: usize = 64;

/// See above.
///
/// # Invariants
/// Tables, and what is in them, are from `Table::new` and `add`. One that can no longer be found is
/// retired, once. Every entry is in the chain of its hash: in the map's table or, if that chain has
/// moved, in the next table.
pub(in crate::map) struct Tables<P: Place, S> {
    /// See [`Table`]. Null until the first insertion, and the first one after `exchange`.
    table: AtomicPtr<Table<P>>,
    pub(in crate::map) hasher: S,
    /// Buckets for the requested capacity. Only grows.
    pub(in crate::map) buckets_min: AtomicUsize,
}

/// A locked chain and its table.
pub(in crate::map) struct Chain<'g, P: Place> {
    table: &'g Table<P>,
    pub(in crate::map) held: Held<'g, P>,
    pub(in crate::map) hash: u64,
}

impl<'g, P: Place> Chain<'g, P> {
    /// Searches the chain for an entry.
    #[inline(always)]
    pub(in crate::map) fn search(
        &self,
        is_it: impl FnMut(P::Content) -> bool,
    ) -> Option<Found<'g, P>> {
        // SAFETY: buckets are not freed while the guard lasts.
        unsafe { self.held.first.find(self.held.word, tag_of(self.hash), is_it) }
    }
}

impl<P: Place, S> Tables<P, S> {
    pub(in crate::map) const fn new(hasher: S) -> Tables<P, S> {
        Tables { table: AtomicPtr::new(null_mut()), hasher, buckets_min: AtomicUsize::new(0) }
    }

    /// Makes a first table with room for `capacity` entries, if there is memory for it.
    pub(in crate::map) fn make_room(&mut self, capacity: usize) {
        if capacity > 0 {
            let buckets = Table::<P>::buckets_for(capacity);
            if self.try_make_table(buckets) {
                *self.buckets_min.get_mut() = buckets;
            }
        }
    }

    pub(in crate::map) fn len(&self) -> usize {
        let _guard = read();
        self.table().map_or(0, Table::len)
    }

    pub(in crate::map) fn capacity(&self) -> usize {
        let _guard = read();
        self.table().map_or(0, Table::capacity)
    }

    /// The map's table. The caller is in a read section while it uses it.
    #[inline(always)]
    pub(in crate::map) fn table(&self) -> Option<&Table<P>> {
        // Acquire pairs with the Release in `finish`, `try_make_table` and `exchange`. [M5]
        let table = self.table.load(Ordering::Acquire);
        // SAFETY: null, or a table that is not freed during the caller's read section.
        unsafe { table.as_ref() }
    }

    /// What tells maps apart while they are borrowed.
    #[inline(always)]
    pub(in crate::map) fn address(&self) -> usize {
        (&raw const self.table).addr()
    }

    /// The first bucket of the chain of a hash and its word: in the map's table or, where the chain
    /// has moved, in the next one.
    #[inline(always)]
    pub(in crate::map) fn first<'g>(
        &'g self,
        hash: u64,
        _: &'g Guard,
    ) -> Option<(&'g Bucket<P>, u64)> {
        let mut table = self.table()?;
        let mut first = table.bucket(hash);
        let mut word = first.word();
        while word & MOVED != 0 {
            // SAFETY: tables are not freed while the guard lasts; one that is marked has a next.
            table = unsafe { table.next() }?;
            first = table.bucket(hash);
            word = first.word();
        }
        Some((first, word))
    }

    /// Takes the tables out of the map, with all entries, unless they are small; false then.
    ///
    /// # Safety
    /// Entries may be freed in any thread, at any time.
    pub(in crate::map) unsafe fn exchange(&self) -> bool {
        let _guard = read();
        if self.table().is_none_or(|table| table.buckets() <= BUCKETS_KEPT_MAX) {
            return false;
        }
        // AcqRel: Acquire pairs with the Release in `finish` and `try_make_table`, as that of a
        // load; Release with the Acquire in `table`, of a thread that finds none. [M5]
        let table = self.table.swap(null_mut(), Ordering::AcqRel);
        if !table.is_null() {
            // SAFETY: exchanged here; the caller's contract.
            unsafe { series::retire(table) };
        }
        true
    }

    /// Makes a table of the size that was requested or, without memory for that, a small one.
    #[cold]
    fn make_table(&self) {
        // Relaxed: a number.
        let requested = BUCKETS_MIN.max(self.buckets_min.load(Ordering::Relaxed));
        if !self.try_make_table(requested) && !self.try_make_table(BUCKETS_MIN) {
            handle_alloc_error(Layout::new::<Table<P>>());
        }
    }

    /// Makes a table, unless there is one. False without memory.
    pub(in crate::map) fn try_make_table(&self, buckets: usize) -> bool {
        let made = Series::begin(buckets);
        if made.is_null() {
            return false;
        }
        // Release pairs with the Acquire in `table`. Relaxed on failure: ours is not used. [M5]
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        if self.table.compare_exchange(null_mut(), made, release, relaxed).is_err() {
            // SAFETY: made above, and no other thread knows it.
            unsafe { series::end(made, |_| {}) };
        }
        true
    }

    /// Copies of a part of each entry that is in the map from this call to the end of them.
    pub(in crate::map) fn copies<'g, T: Part<P>>(&'g self, _: &'g Guard) -> Copies<'g, P, T> {
        // SAFETY: the map's table of a moment in the guard's section.
        Copies::new(unsafe { Walk::new(self.table()) })
    }

    /// Calls `each` for every unit, in the order of [`Walk::limit_to`], with the guard of a read
    /// section, which some units share.
    pub(in crate::map) fn for_each_unit(&self, mut each: impl FnMut(Walk<'_, P>, &Guard)) {
        let mut position = Some(0);
        while position.is_some() {
            let guard = read();
            for _ in 0..UNITS_IN_SECTION {
                let Some(at) = position else { return };
                // SAFETY: the map's table of a moment in the guard's section.
                let mut walk = unsafe { Walk::new(self.table()) };
                position = walk.limit_to(at);
                each(walk, &guard);
            }
        }
    }

    /// Takes the table out of the map.
    pub(in crate::map) fn take_table(&mut self) -> *mut Table<P> {
        core::mem::replace(self.table.get_mut(), null_mut())
    }
}

impl<P: Place, S: BuildHasher> Tables<P, S> {
    #[inline(always)]
    pub(in crate::map) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        spread(self.hasher.hash_one(key))
    }
}

impl<P: Rehash<S>, S> Tables<P, S> {
    /// Locks the chain of a hash; `None` without a table. Does its part of a resize.
    #[inline(always)]
    pub(in crate::map) fn lock<'g>(&'g self, hash: u64, _: &'g Guard) -> Option<Chain<'g, P>> {
        if !P::IS_BRIEF {
            refuse_inside(self.address());
        }
        let table = self.table()?;
        let first = table.bucket(hash);
        first.prefetch();
        if table.is_moving() {
            self.help(table);
        }
        match first.lock_free() {
            Some(held) => Some(Chain { table, held, hash }),
            None => Self::lock_slow(table, hash),
        }
    }

    /// Locks the chain of a hash, in this table or a later one, to which it has moved. The caller
    /// is in a read section.
    #[cold]
    #[inline(never)]
    fn lock_slow(mut table: &Table<P>, hash: u64) -> Option<Chain<'_, P>> {
        loop {
            if let Some((held, is_orphan)) = table.bucket(hash).lock() {
                // SAFETY: tables are not freed in the section.
                let is_half_marked = || unsafe { table.is_half_marked(hash) };
                if !is_orphan || !is_half_marked() {
                    return Some(Chain { table, held, hash });
                }
                // SAFETY: the thread that marked the first chain is not in this process, or it
                // would hold this lock. So the next table has the entries.
                unsafe { held.mark() };
            }
            // SAFETY: tables are not freed in the section; one that is marked has a next.
            table = unsafe { table.next() }?;
        }
    }

    #[inline(always)]
    pub(in crate::map) fn lock_or_make<'g>(&'g self, hash: u64, guard: &'g Guard) -> Chain<'g, P> {
        loop {
            if let Some(chain) = self.lock(hash, guard) {
                return chain;
            }
            self.make_table();
        }
    }

    /// Adds an entry to its chain, which does not contain its key.
    #[inline]
    pub(in crate::map) fn add(&self, chain: Chain<'_, P>, content: P::Content) {
        let Chain { table, mut held, hash } = chain;
        let (first, content) = (held.first, P::with_hash(content, hash, table));
        // SAFETY: buckets are not freed during the guard's section, and the lock is held.
        let added = unsafe { first.add(&mut held.word, tag_of(hash), content) };
        drop(held);
        table.count().increment();
        // Chains of more than two buckets tell of a bad hash, which makes few of them longer.
        let is_sample = |bucket: *const Bucket<P>| {
            // SAFETY: buckets are not freed during the guard's section.
            let second = unsafe { first.next() };
            table.buckets() <= BUCKETS_KEPT_MAX
                || (bucket.addr() / Bucket::<P>::BYTES).is_multiple_of(GROWTH_SAMPLE)
                || second.is_some_and(|second| !core::ptr::eq(second, bucket))
        };
        if added.is_some_and(is_sample) {
            self.grow(table);
        }
    }

    /// Replaces an entry of a chain by one with the same key.
    #[inline]
    pub(in crate::map) fn replace<'g>(
        &self,
        mut chain: Chain<'g, P>,
        found: &Found<'g, P>,
        content: P::Content,
    ) {
        chain.held.replace(found, P::with_hash(content, chain.hash, chain.table));
    }

    /// Removes an entry from its chain.
    #[inline]
    pub(in crate::map) fn take<'g>(&self, chain: Chain<'g, P>, found: &Found<'g, P>) {
        let Chain { table, mut held, hash } = chain;
        let is_empty = held.remove(found);
        drop(held);
        table.count().decrement();
        if P::SHRINKS && is_empty && (hash >> 32) % SHRINK_SAMPLE == 0 {
            self.shrink(table);
        }
    }
}

impl<P: Place, S> Drop for Tables<P, S> {
    fn drop(&mut self) {
        // Dropped last, after the tables, whether or not a destructor unwinds.
        let mut entries = P::unlinked();
        let table = self.take_table();
        if !table.is_null() {
            // SAFETY: from the series, and nothing uses it any more.
            let add = |content| unsafe { P::unlink(content, &mut entries) };
            // SAFETY: the map's, which no other thread uses: readers borrow the map.
            unsafe { series::end(table, add) };
        }
    }
}
