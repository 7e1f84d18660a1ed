//! Hash maps that many threads read and change at once: [`RcuHashMap`], and [`RcuWordMap`].
//!
//! ```text
//!   hash --low bits--> bucket: [ tags of six places, lock | next bucket | six places ]
//!        --high bits-> tag                                                  |
//!                                                             key and value, in an object
//!                                                             that is retired through RCU
//! ```
//!
//! Start reading in `tables`, at `bucket` (lookups), then `resize` (how entries move to another
//! table) and `series` (how the map is cleared). They are generic over what a bucket has of an
//! entry: its address (`address`; `entry` says how entries end), or its key and its value in the
//! map of words (`words`).

mod address;
#[cfg(test)]
#[path = "../../tests/unit/map_alone.rs"]
mod alone;
mod closures;
mod conditional;
mod entry;
mod hasher;
mod iter;
mod pinned;
mod pinned_set;
mod set;
mod tables;
mod traits;
mod words;
mod write;

use core::borrow::Borrow;
use core::hash::{BuildHasher, Hash};

use sheaves_rcu::{Guard, read};

use address::{Address, entry_at};
pub use conditional::OccupiedError;
use entry::{Defer, Entry, Limbo};
pub use hasher::{DefaultHashBuilder, DefaultHasher};
pub use iter::Iter;
pub use pinned::Pinned;
pub use pinned_set::PinnedSet;
pub use set::RcuHashSet;
use tables::Tables;
use tables::tags::tag_of;
pub use traits::IntoIter;
#[cfg(feature = "rayon")]
pub use traits::ParIter;
pub use words::{RcuWordMap, Word, WordIter};

/// A concurrent hash map for many readers. A lookup takes no lock, executes no atomic
/// read-modify-write instruction, and writes only the thread's own word, for its read section.
///
/// ```
/// use sheaves::map::RcuHashMap;
/// use sheaves::rcu::read;
///
/// let sessions: RcuHashMap<u64, String> = RcuHashMap::new();
/// let guard = read();
/// sessions.insert(7, String::from("seven"), &guard);
/// assert_eq!(sessions.get(&7, &guard).map(String::as_str), Some("seven"));
/// // A reader keeps what it has found, also when the entry is removed.
/// let found = sessions.remove(&7, &guard);
/// assert_eq!(found.map(String::as_str), Some("seven"));
/// assert!(!sessions.contains_key(&7));
/// ```
///
/// A reference ends with the guard under which it was found:
///
/// ```compile_fail,E0505
/// # use sheaves::{map::RcuHashMap, rcu::read};
/// # let sessions: RcuHashMap<u64, String> = RcuHashMap::new();
/// let guard = read();
/// let found = sessions.get(&7, &guard);
/// drop(guard);
/// println!("{found:?}");
/// ```
///
/// and with the map:
///
/// ```compile_fail,E0505
/// # use sheaves::{map::RcuHashMap, rcu::read};
/// # let sessions: RcuHashMap<u64, String> = RcuHashMap::new();
/// # let guard = read();
/// let found = sessions.get(&7, &guard);
/// drop(sessions);
/// println!("{found:?}");
/// ```
///
/// # Hasher
///
/// `S` makes the hashes: [`DefaultHashBuilder`], `std::hash::RandomState`, or one from a crate. The
/// map mixes all bits of a hash, so that one multiplication, or the number itself as its hash, is
/// good enough for keys that differ in any bits. `Hash`, `Eq` and closures run while the chain of
/// their key is locked: they must not change the map. A closure that does panics, unless more than
/// 256 closures of maps run at a time. Keys and values are dropped without that lock: their
/// destructors may use the map.
///
/// # Cost
///
/// A lookup touches two cache lines: the bucket and the entry; at most one in about 20 touches a
/// second bucket. In a map that has grown by itself an entry takes 16 to 32 bytes of the table, and
/// a block for key and value, with 16 bytes more if these have a destructor. A small table takes up
/// to twice as much. So does one whose keys are removed, and others inserted, again and again; up
/// to one in 9 of its lookups touches a second bucket. An empty map is about 390 bytes and has no
/// table. `sheaves bench map` compares it with others.
///
/// # Resizing
///
/// The table doubles when buckets have four entries on average, and halves below half an entry, but
/// never below the capacity that was requested. One of at most 64 buckets quadruples. The writer
/// that detects this makes the next table (one allocation), and all writers move entries to it,
/// sixteen chains with each change. Lookups never wait for that; they may read one bucket more. A
/// chain that is locked is left for a later change; until then the table is not resized again. A
/// table that is not changed any more stays half moved, which does no harm.
///
/// # Memory ordering and blocking
///
/// What a thread did before it inserted a value happens before what another thread does after it
/// has found the value. Changes of one key happen in one order, on which all threads agree.
///
/// Lookups and iteration never block; a lookup begins again when its key is removed and inserted
/// meanwhile. Changes of keys in the same bucket exclude each other: a
/// writer spins briefly, then sleeps. The lock is held for tens of nanoseconds, unless a closure
/// takes longer. Changes of keys in other buckets do not wait for it.
///
/// # Destruction of values
///
/// An entry that is replaced or removed is freed after a grace period. Without a destructor it
/// returns to the heap like other deferred objects ([`crate::raw::Cache::free_rcu`]). One with a
/// destructor is dropped by a deferred callback ([`mod@crate::rcu::defer`]): soon, in another
/// thread, perhaps after the end of the map. A panic there aborts the process.
///
/// In a map of [`RcuHashMap::scoped`] such an entry waits, in batches of 32, until a later change
/// of the map, [`RcuHashMap::reclaim`], or the end of the map drops it, perhaps in a read section.
/// A change drops at most 64. One that such a destructor makes leaves the rest of these to later
/// changes.
///
/// # Fork, signals and panics
///
/// After a fork the child may do everything, also if other threads were changing the map. Each of
/// their changes has happened in the child or not. A key and a value on the way into the map or out
/// of it may never be dropped there, nor those that wait to be; the number of entries may be off by
/// one for each of these threads.
///
/// In signal handlers [`RcuHashMap::get`] may be called if `Hash` and `Eq` may; nothing else may.
///
/// The map itself never panics. A panic of `Eq`, or of a closure, leaves the map unchanged; a panic
/// of a destructor in a call of the map leaks no other entry. A panic of `Hash` while entries move
/// aborts the process. So does running out of memory, as for `std`'s map; without memory for a
/// larger table, chains get longer instead.
pub struct RcuHashMap<K, V, S = DefaultHashBuilder> {
    tables: Tables<Address<K, V>, S>,
    limbo: Limbo<K, V>,
}

// SAFETY: the map owns its keys and values; they are dropped wherever it is.
unsafe impl<K: Send, V: Send, S: Send> Send for RcuHashMap<K, V, S> {}
// SAFETY: a shared map gives shared access to keys and values, accepts them from any thread, and
// drops them in any thread.
unsafe impl<K: Send + Sync, V: Send + Sync, S: Sync> Sync for RcuHashMap<K, V, S> {}

impl<K: Send + 'static, V: Send + 'static, S> RcuHashMap<K, V, S> {
    /// An empty map. Allocates nothing. The compiler has to know the hasher: from the type of a
    /// field or a variable, which need not name the default one.
    #[must_use]
    pub fn new() -> RcuHashMap<K, V, S>
    where
        S: Default,
    {
        RcuHashMap::with_hasher(S::default())
    }

    /// An empty map with a hasher, also for a `static`. Allocates nothing.
    ///
    /// ```
    /// use std::hash::{BuildHasherDefault, DefaultHasher};
    /// use sheaves::map::RcuHashMap;
    ///
    /// type Hasher = BuildHasherDefault<DefaultHasher>;
    /// static ROUTES: RcuHashMap<u32, u32, Hasher> = RcuHashMap::with_hasher(Hasher::new());
    /// assert!(ROUTES.is_empty());
    /// ```
    #[must_use]
    pub const fn with_hasher(hasher: S) -> RcuHashMap<K, V, S> {
        RcuHashMap::empty(hasher, Some(Entry::defer))
    }

    /// An empty map that holds `capacity` entries before it grows, and never shrinks below that.
    /// Without memory for that many it is as from `new`.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> RcuHashMap<K, V, S>
    where
        S: Default,
    {
        RcuHashMap::with_capacity_and_hasher(capacity, S::default())
    }

    /// [`RcuHashMap::with_capacity`] with a hasher.
    #[must_use]
    pub fn with_capacity_and_hasher(capacity: usize, hasher: S) -> RcuHashMap<K, V, S> {
        RcuHashMap::with_hasher(hasher).reserved(capacity)
    }
}

impl<K, V, S> RcuHashMap<K, V, S> {
    /// An empty map, as [`RcuHashMap::with_capacity_and_hasher`] makes, whose keys and values may
    /// borrow what outlives it, and need not be `Send`: see
    /// [destruction](RcuHashMap#destruction-of-values).
    ///
    /// ```
    /// use std::rc::Rc;
    /// use sheaves::{map::{DefaultHashBuilder, RcuHashMap}, rcu::read};
    ///
    /// let line = String::from("name=value");
    /// let (name, value) = line.split_once('=').unwrap();
    /// let fields = RcuHashMap::scoped(0, DefaultHashBuilder::new());
    /// fields.insert(name, Rc::new(value), &read());
    /// assert_eq!(fields.get("name", &read()).map(|value| **value), Some("value"));
    /// ```
    #[must_use]
    pub fn scoped(capacity: usize, hasher: S) -> RcuHashMap<K, V, S> {
        RcuHashMap::empty(hasher, None).reserved(capacity)
    }

    const fn empty(hasher: S, defer: Option<Defer<K, V>>) -> RcuHashMap<K, V, S> {
        RcuHashMap { tables: Tables::new(hasher), limbo: Limbo::new(defer) }
    }

    /// An empty map with room for `capacity` entries.
    fn reserved(mut self, capacity: usize) -> RcuHashMap<K, V, S> {
        self.tables.make_room(capacity);
        self
    }

    /// The number of entries. It is exact while no thread changes the map, except in the child of a
    /// fork, see the type. Otherwise it counts every change before this call, and some of those
    /// during it.
    ///
    /// Reads a cache line for each slot that is in use, under a short lock.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// True if there are no entries, as [`RcuHashMap::len`] says.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of entries that the table is made for; 0 without a table.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.tables.capacity()
    }

    /// In a scoped map: drops replaced and removed values whose grace period has ended, and starts
    /// a grace period for the others; true if no others wait in the map. Never waits.
    ///
    /// In other maps no value waits, and there is nothing to do. There [`rcu::defer::barrier`]
    /// waits until the library has dropped what was removed before.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sheaves::{map::{DefaultHashBuilder, RcuHashMap}, rcu::{read, synchronize}};
    ///
    /// let map = RcuHashMap::scoped(0, DefaultHashBuilder::new());
    /// let value = Arc::new(1);
    /// map.insert(1, Arc::clone(&value), &read());
    /// map.remove(&1, &read());
    /// while !map.reclaim() {
    ///     synchronize()?;
    /// }
    /// assert_eq!(Arc::strong_count(&value), 1);
    /// # Ok::<(), sheaves::rcu::InsideReader>(())
    /// ```
    ///
    /// [`rcu::defer::barrier`]: crate::rcu::defer::barrier
    pub fn reclaim(&self) -> bool {
        self.limbo.reclaim()
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> RcuHashMap<K, V, S> {
    /// The value of a key, valid as long as the guard, also when the entry is removed. Never
    /// blocks.
    #[inline]
    pub fn get<'g, Q: Hash + Eq + ?Sized>(&'g self, key: &Q, guard: &'g Guard) -> Option<&'g V>
    where
        K: Borrow<Q>,
    {
        self.find(key, guard).map(|entry| &entry.value)
    }

    /// The key that is in the map, and its value.
    #[inline]
    pub fn get_key_value<'g, Q: Hash + Eq + ?Sized>(
        &'g self,
        key: &Q,
        guard: &'g Guard,
    ) -> Option<(&'g K, &'g V)>
    where
        K: Borrow<Q>,
    {
        self.find(key, guard).map(|entry| (&entry.key, &entry.value))
    }

    /// True if the key has a value. Uses a read section of its own.
    #[inline]
    #[must_use]
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key, &read()).is_some()
    }

    /// The hasher.
    #[must_use]
    pub fn hasher(&self) -> &S {
        &self.tables.hasher
    }

    /// Makes room for `additional` more entries, so that their insertion does not resize the table,
    /// which never shrinks below that. Moves the entries that are there.
    ///
    /// Ends sooner where other threads keep chains locked or are moving entries, too: then
    /// insertions do the rest. Changes nothing where there is no memory for that many.
    ///
    /// ```
    /// use sheaves::map::RcuHashMap;
    ///
    /// let squares: RcuHashMap<u64, u64> = RcuHashMap::new();
    /// squares.reserve(1000);
    /// let capacity = squares.capacity();
    /// (&squares).extend((0..1000).map(|number| (number, number * number)));
    /// assert!(capacity >= 1000 && squares.capacity() == capacity);
    /// ```
    pub fn reserve(&self, additional: usize) {
        self.tables.reserve(additional);
    }

    #[inline(always)]
    fn find<'g, Q: Hash + Eq + ?Sized>(
        &'g self,
        key: &Q,
        guard: &'g Guard,
    ) -> Option<&'g Entry<K, V>>
    where
        K: Borrow<Q>,
    {
        let hash = self.tables.hash(key);
        let tag = tag_of(hash);
        // SAFETY: an entry that is found is not ended while the guard lasts.
        let is_it = |content| unsafe { (*entry_at::<K, V>(content)).key.borrow() == key };
        loop {
            let (first, word) = self.tables.first(hash, guard)?;
            // SAFETY: neither buckets nor entries are freed while the guard lasts.
            let found = unsafe { first.find(word, tag, is_it) }?;
            if found.is_published(tag) {
                // SAFETY: as above; entries do not change.
                return Some(unsafe { &*found.entry() });
            }
        }
    }
}
