//! Iteration over all entries.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::iter::FusedIterator;

use sheaves_rcu::Guard;

use super::RcuHashMap;
use super::address::{Address, entry_at};
use super::entry::Entry;
use super::tables::bucket::Bucket;
use super::tables::tags::Places;
use super::tables::walk::Walk;

impl<K: Hash + Eq, V, S: BuildHasher> RcuHashMap<K, V, S> {
    /// All entries, in no particular order.
    ///
    /// A key that is in the map from this call to the end of the iteration is returned exactly
    /// once, also if the map is resized, with the value of this call or a later one. A key that is
    /// inserted or removed during the iteration may be missed, or returned more than once.
    ///
    /// Never blocks.
    #[must_use]
    pub fn iter<'g>(&'g self, guard: &'g Guard) -> Iter<'g, K, V> {
        let _ = guard;
        // SAFETY: the map's table of a moment in the guard's section.
        Iter::new(unsafe { Walk::new(self.tables.table()) })
    }

    /// The keys, as [`RcuHashMap::iter`] returns them.
    pub fn keys<'g>(&'g self, guard: &'g Guard) -> impl FusedIterator<Item = &'g K> {
        self.iter(guard).map(|(key, _)| key)
    }

    /// The values, as [`RcuHashMap::iter`] returns them.
    pub fn values<'g>(&'g self, guard: &'g Guard) -> impl FusedIterator<Item = &'g V> {
        self.iter(guard).map(|(_, value)| value)
    }
}

/// The entries of a map, in no particular order: see [`RcuHashMap::iter`].
pub struct Iter<'g, K, V> {
    walk: Walk<'g, Address<K, V>>,
    bucket: Option<&'g Bucket<Address<K, V>>>,
    places: Places,
}

impl<'g, K, V> Iter<'g, K, V> {
    pub(super) fn new(walk: Walk<'g, Address<K, V>>) -> Iter<'g, K, V> {
        Iter { walk, bucket: None, places: Places::occupied(0) }
    }

    /// See [`Walk::split`].
    #[cfg(feature = "rayon")]
    pub(super) fn split(mut self) -> (Self, Option<Self>) {
        let others = self.walk.split();
        (self, others.map(Iter::new))
    }

    /// The next entry.
    pub(super) fn next_entry(&mut self) -> Option<*mut Entry<K, V>> {
        loop {
            if let (Some(bucket), Some(place)) = (self.bucket, self.places.next()) {
                return Some(entry_at(bucket.content(place)));
            }
            self.bucket = self.walk.next_bucket();
            self.places = Places::occupied(self.bucket?.word());
        }
    }
}

impl<'g, K, V> Iterator for Iter<'g, K, V> {
    type Item = (&'g K, &'g V);

    fn next(&mut self) -> Option<(&'g K, &'g V)> {
        let entry = self.next_entry()?;
        // SAFETY: an entry is not ended while a reader may have found it, and it was in the table
        // when the section had begun.
        let entry = unsafe { &*entry };
        Some((&entry.key, &entry.value))
    }
}

impl<K, V> FusedIterator for Iter<'_, K, V> {}

impl<K, V> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("unit", &self.walk.unit).finish_non_exhaustive()
    }
}
