//! Iteration over all entries.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::iter::FusedIterator;

use sheaves_rcu::Guard;

use super::RcuHashMap;
use super::bucket::{Bucket, MOVED};
use super::entry::Entry;
use super::table::Table;
use super::tags::Places;

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
        unsafe { Iter::new(self.table()) }
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
///
/// It stays with the table that it began with and, if entries were moving out of that, with the
/// one that they moved to. A chain whose entries move away later is complete for it all the same:
/// they also remain in there, and are freed after the guard's read section.
pub struct Iter<'g, K, V> {
    table: Option<&'g Table<Entry<K, V>>>,
    /// Where entries were moving to at the beginning.
    target: Option<&'g Table<Entry<K, V>>>,
    /// The next unit, the one after the last, and the second chain of the one before.
    unit: usize,
    end: usize,
    second: Option<&'g Bucket<Entry<K, V>>>,
    bucket: Option<&'g Bucket<Entry<K, V>>>,
    places: Places,
}

impl<'g, K, V> Iter<'g, K, V> {
    /// # Safety
    /// Tables are not freed during `'g`, and this one was the map's at some moment of it.
    pub(super) unsafe fn new(table: Option<&'g Table<Entry<K, V>>>) -> Iter<'g, K, V> {
        // SAFETY: the caller's contract.
        let target = table.and_then(|table| unsafe { table.next() });
        let end = table.map_or(0, |table| table.units(target.unwrap_or(table)));
        let (bucket, places) = (None, Places::occupied(0));
        Iter { table, target, unit: 0, end, second: None, bucket, places }
    }

    /// Makes it one over the unit at `position`. Returns the position after that, if it was not the
    /// last one.
    ///
    /// Positions are numbers of units in the order of their reversed bits. So a unit comes before
    /// or after the same entries whatever the size of the table: if that grows, the units that it
    /// becomes follow each other, and if it shrinks, a part of a unit comes again (Pieter Noordhuis
    /// in Redis, `dictScan`).
    pub(super) fn limit_to(&mut self, position: usize) -> Option<usize> {
        let bits = self.end.checked_sub(1)?;
        self.unit = position & bits;
        self.end = self.unit + 1;
        let after = (position | !bits).reverse_bits().wrapping_add(1).reverse_bits();
        (after != 0).then_some(after)
    }

    /// Splits off the second half of the units that are left, unless they are few.
    #[cfg(feature = "rayon")]
    pub(super) fn split(mut self) -> (Self, Option<Self>) {
        const UNITS_MIN: usize = 16;
        let (table, target, end) = (self.table, self.target, self.end);
        let unit = self.unit + (end - self.unit) / 2;
        if end - unit < UNITS_MIN {
            return (self, None);
        }
        self.end = unit;
        let (bucket, places) = (None, Places::occupied(0));
        (self, Some(Iter { table, target, unit, end, second: None, bucket, places }))
    }

    /// The next entry.
    pub(super) fn next_entry(&mut self) -> Option<*mut Entry<K, V>> {
        loop {
            if let (Some(bucket), Some(place)) = (self.bucket, self.places.next()) {
                return Some(bucket.entry(place));
            }
            // SAFETY: buckets are not freed in the read section.
            let next = self.bucket.and_then(|bucket| unsafe { bucket.next() });
            // None at the end, and from then on: the last bucket may get a next one later.
            self.bucket = next.or_else(|| self.next_chain());
            self.places = Places::occupied(self.bucket?.word());
        }
    }

    fn next_chain(&mut self) -> Option<&'g Bucket<Entry<K, V>>> {
        let table = self.table.filter(|_| self.second.is_none());
        let Some(table) = table else { return self.second.take() };
        let units = table.units(self.target.unwrap_or(table));
        if self.unit == self.end {
            return None;
        }
        // Of a unit the first chain is marked first, when all of its entries are in the target.
        let has_moved = table.bucket(self.unit as u64).word() & MOVED != 0;
        let source = self.target.filter(|_| has_moved).unwrap_or(table);
        let (first, second) = source.chains(self.unit, units);
        self.unit += 1;
        self.second = second;
        Some(first)
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
        f.debug_struct("Iter").field("unit", &self.unit).finish_non_exhaustive()
    }
}
