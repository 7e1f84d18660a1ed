//! Iteration that takes the entries out of a map.

use alloc::vec::{self, Vec};
use core::fmt;
use core::iter::FusedIterator;

use crate::map::address::entry_at;
use crate::map::entry::{Entry, Owned};
use crate::map::{RcuHashMap, tables::series};

/// The entries of a map that is over, in no particular order.
///
/// ```
/// use sheaves::map::RcuHashMap;
///
/// let map = RcuHashMap::<u64, String>::from([(7, String::from("seven"))]);
/// assert_eq!(map.into_iter().collect::<Vec<_>>(), [(7, String::from("seven"))]);
/// ```
pub struct IntoIter<K, V> {
    entries: vec::IntoIter<Owned<K, V>>,
}

impl<K, V, S> IntoIterator for RcuHashMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    /// Allocates a list of the entries, with the program's allocator.
    fn into_iter(mut self) -> IntoIter<K, V> {
        // First: running out of memory must not happen between the two.
        let mut entries = Vec::with_capacity(self.len());
        let table = self.tables.take_table();
        if !table.is_null() {
            // SAFETY: the map's, which no other thread uses: readers borrow the map.
            // INVARIANT: entries of a table are from `Entry::new`.
            unsafe { series::end(table, |content| entries.push(Owned(entry_at(content)))) };
        }
        let entries = IntoIter { entries: entries.into_iter() };
        // Here, so that a destructor that panics does not leak the entries.
        drop(self);
        entries
    }
}

impl<K, V> Iterator for IntoIter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let entry = self.entries.next()?.into_raw();
        // SAFETY: by the invariant; the owner is not dropped.
        let Entry { key, value } = unsafe { Entry::take(entry) };
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}

impl<K, V> ExactSizeIterator for IntoIter<K, V> {}

impl<K, V> FusedIterator for IntoIter<K, V> {}

impl<K, V> fmt::Debug for IntoIter<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter").field("left", &self.len()).finish_non_exhaustive()
    }
}
