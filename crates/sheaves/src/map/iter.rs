//! Iteration over all entries.

use core::fmt;
use core::iter::FusedIterator;
use core::marker::PhantomData;

use super::bucket::{Bucket, Places};
use super::entry::Entry;
use super::table::Table;

/// The entries of a map, in no particular order: see [`super::RcuHashMap::iter`].
///
/// It stays with the table that it began with. Entries that move to another table also remain in
/// their old chain, which is freed after the guard's read section.
pub struct Iter<'g, K, V> {
    table: Option<&'g Table<Entry<K, V>>>,
    /// The number of the next chain.
    next: usize,
    bucket: Option<&'g Bucket<Entry<K, V>>>,
    places: Places,
    entries: PhantomData<&'g (K, V)>,
}

impl<'g, K, V> Iter<'g, K, V> {
    /// # Safety
    /// At some moment of the read section that contains `'g`, nothing had moved out of the table.
    pub(super) unsafe fn new(table: Option<&'g Table<Entry<K, V>>>) -> Iter<'g, K, V> {
        let (bucket, places) = (None, Places::occupied(0));
        Iter { table, next: 0, bucket, places, entries: PhantomData }
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
        let table = self.table.filter(|table| self.next < table.buckets())?;
        self.next += 1;
        Some(table.bucket(self.next as u64 - 1))
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
        f.debug_struct("Iter").field("chains_begun", &self.next).finish_non_exhaustive()
    }
}
