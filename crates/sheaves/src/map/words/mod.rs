//! A hash map of words, which has keys and values in its table: [`RcuWordMap`].
//!
//! It shares the tables of [`RcuHashMap`](super::RcuHashMap), with other places: read `pair` for
//! how an entry is copied, and `super::tables` for how it moves. Removals do not shrink the table:
//! the moves took as long as all else of them.

mod change;
mod iter;
mod pair;
mod traits;
mod word;

use core::hash::BuildHasher;
use core::marker::PhantomData;

use sheaves_rcu::read;

use super::DefaultHashBuilder;
use super::tables::Tables;
use super::tables::tags::tag_of;
pub use iter::WordIter;
use pair::{Moved, Pair};
pub use word::Word;

/// A concurrent hash map for many readers whose keys and values are [`Word`]s: numbers, or what a
/// program makes of them. They lie in the table, and lookups copy the value.
///
/// ```
/// use sheaves::map::RcuWordMap;
///
/// let hits: RcuWordMap<u32, u64> = RcuWordMap::new();
/// hits.insert(7, 1);
/// hits.update(7, |count| count + 1);
/// assert_eq!(hits.get(&7), Some(2));
/// assert_eq!(hits.remove(&7), Some(2));
/// assert!(hits.is_empty());
/// ```
///
/// # Compared with `RcuHashMap`
///
/// [`RcuHashMap`](super::RcuHashMap) lends its values to readers, so each entry needs a block of
/// its own, which stays as it is until its readers have left. Here a change overwrites the entry in
/// the table: nothing is allocated or retired, and entries lie side by side. A value that was lent
/// would change under its reader, so this map only copies.
///
/// # Hasher
///
/// `S` makes the hash of a key's [word](Word::to_word), as a `u64`. All else as in
/// [`RcuHashMap`](super::RcuHashMap#hasher).
///
/// # Cost
///
/// A lookup touches the one or two cache lines of a bucket; of 10 at most one touches a second
/// bucket, of 5 if keys are removed, and others inserted, again and again. It takes no lock,
/// executes no atomic read-modify-write instruction, and writes only the thread's own word, for its
/// read section. A bucket of 128 bytes has places for six entries, so an entry takes 26 to 51 bytes
/// in a map that has grown by itself, and some more in second buckets; a small table takes up to
/// twice as much, and so does one whose keys come and go. An empty map is 16 bytes and a hasher,
/// and has no table. `sheaves bench map` compares it with others.
///
/// # Resizing
///
/// The table doubles when buckets have five entries on average, in the way of
/// [`RcuHashMap`](super::RcuHashMap#resizing); entries are hashed again when they move. It does not
/// become smaller when entries are removed: [`RcuWordMap::clear`] returns it.
///
/// # Memory ordering and blocking
///
/// What a thread did before it stored a value happens before what another thread does after it has
/// found the value. Changes of one key happen in one order, on which all threads agree.
///
/// Lookups and iteration never block. A lookup looks at a bucket again if a writer has filled a
/// place there meanwhile. Changes of keys in the same bucket exclude each other: a writer spins
/// briefly, then sleeps for 50 microseconds at a time. No closure runs while a lock is held, so
/// that it is held for tens of nanoseconds, and closures may use the map.
///
/// # Fork, signals and panics
///
/// After a fork the child may do everything, also if other threads were changing the map. Each of
/// their changes has happened in the child or not; the number of entries may be off by one for each
/// of these threads.
///
/// In signal handlers [`RcuWordMap::get`] may be called if the hasher may; nothing else may.
///
/// The map itself never panics. A panic of a closure leaves the map unchanged. A panic of the
/// hasher while entries move aborts the process. So does running out of memory, as for `std`'s map;
/// without memory for a larger table, chains get longer instead.
pub struct RcuWordMap<K, V, S = DefaultHashBuilder> {
    tables: Tables<Pair, S>,
    /// Invariant: what one reference to the map stores another one returns, as the same type.
    entries: PhantomData<*mut (K, V)>,
}

// SAFETY: the map has words only, of which it makes keys and values where it is.
unsafe impl<K: Send, V: Send, S: Send> Send for RcuWordMap<K, V, S> {}
// SAFETY: a shared map takes keys and values in any thread and returns copies in any other; it
// lends none.
unsafe impl<K: Send, V: Send, S: Sync> Sync for RcuWordMap<K, V, S> {}

impl<K, V, S> RcuWordMap<K, V, S> {
    /// An empty map. Allocates nothing.
    #[must_use]
    pub fn new() -> RcuWordMap<K, V, S>
    where
        S: Default,
    {
        RcuWordMap::with_hasher(S::default())
    }

    /// An empty map with a hasher, also for a `static`. Allocates nothing.
    ///
    /// ```
    /// use sheaves::map::{DefaultHashBuilder, RcuWordMap};
    ///
    /// static PORTS: RcuWordMap<u16, u32> = RcuWordMap::with_hasher(DefaultHashBuilder::new());
    /// PORTS.insert(80, 1);
    /// assert!(PORTS.contains_key(&80));
    /// ```
    #[must_use]
    pub const fn with_hasher(hasher: S) -> RcuWordMap<K, V, S> {
        RcuWordMap { tables: Tables::new(hasher), entries: PhantomData }
    }

    /// An empty map that holds `capacity` entries before it grows, also after it was cleared.
    /// Without memory for that many it is as from `new`.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> RcuWordMap<K, V, S>
    where
        S: Default,
    {
        RcuWordMap::with_capacity_and_hasher(capacity, S::default())
    }

    /// [`RcuWordMap::with_capacity`] with a hasher.
    #[must_use]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> RcuWordMap<K, V, S> {
        let mut map = RcuWordMap::with_hasher(hasher);
        map.tables.make_room(capacity);
        map
    }

    /// The number of entries, as [`RcuHashMap::len`](super::RcuHashMap::len) counts them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// True if there are no entries, as [`RcuWordMap::len`] says.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of entries that the table is made for; 0 without a table.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.tables.capacity()
    }

    /// The hasher.
    #[must_use]
    pub fn hasher(&self) -> &S {
        &self.tables.hasher
    }
}

impl<K: Word, V: Word, S: BuildHasher> RcuWordMap<K, V, S> {
    /// The value of a key. Never blocks. Uses a read section of its own, which costs less inside
    /// one of the caller's.
    #[inline]
    #[must_use]
    pub fn get(&self, key: &K) -> Option<V> {
        self.find(key.to_word()).map(V::from_word)
    }

    /// True if the key has a value.
    #[inline]
    #[must_use]
    pub fn contains_key(&self, key: &K) -> bool {
        self.find(key.to_word()).is_some()
    }

    /// Makes room for `additional` more entries: see
    /// [`RcuHashMap::reserve`](super::RcuHashMap::reserve).
    pub fn reserve(&self, additional: usize) {
        self.tables.reserve(additional);
    }

    /// The lookup, in the map's table or, where the chain has moved, in the next one.
    #[inline(always)]
    fn find(&self, key: u64) -> Option<u64> {
        let _guard = read();
        let hash = self.tables.hash(&key);
        let mut table = self.tables.table()?;
        loop {
            // SAFETY: neither buckets nor tables are freed while the guard lasts.
            match unsafe { table.bucket(hash).value_of(tag_of(hash), key) } {
                Ok(value) => return value,
                // SAFETY: as above; one with a chain that has moved has a next.
                Err(Moved) => table = unsafe { table.next() }?,
            }
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/map_words.rs"]
mod tests;
