//! Iteration over all entries.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::iter::FusedIterator;
use core::ptr::null_mut;

use sheaves_rcu::Guard;
use sheaves_sys::map;

use super::RcuHashMap;
use super::address::{Address, entry_at};
use super::entry::Entry;
use super::tables::bucket::{Bucket, Place};
use super::tables::copies::{COPIES, Copies, Part};

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
        Iter { entries: self.tables.copies(guard) }
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
    entries: Copies<'g, Address<K, V>, *mut Entry<K, V>>,
}

#[cfg(feature = "rayon")]
impl<K, V> Iter<'_, K, V> {
    /// See [`Walk::split`](super::tables::walk::Walk::split).
    pub(super) fn split(mut self) -> (Self, Option<Self>) {
        let others = self.entries.walk.split();
        (self, others.map(|walk| Iter { entries: Copies::new(walk) }))
    }
}

/// The entry, which is on its way from memory when it has been copied.
impl<K, V> Part<Address<K, V>> for *mut Entry<K, V> {
    const NONE: Self = null_mut();

    #[inline(always)]
    fn copy(bucket: &Bucket<Address<K, V>>, copies: &mut [Self; COPIES]) -> usize {
        let count = bucket.copy_each(copies, |place| entry_at(place.load()));
        copies[..count].iter().for_each(|entry| map::prefetch(entry.addr()));
        count
    }
}

/// # Safety
/// The entry was in a map in a read section that lasts during `'g`.
unsafe fn parts_of<'g, K, V>(entry: *mut Entry<K, V>) -> (&'g K, &'g V) {
    // SAFETY: the caller's contract. An entry is not ended while a reader may have found it.
    let Entry { key, value } = unsafe { &*entry };
    (key, value)
}

impl<'g, K, V> Iterator for Iter<'g, K, V> {
    type Item = (&'g K, &'g V);

    #[inline]
    fn next(&mut self) -> Option<(&'g K, &'g V)> {
        // SAFETY: the guard of `'g` keeps the section.
        self.entries.next().map(|entry| unsafe { parts_of(entry) })
    }

    #[inline]
    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, first: B, mut each: F) -> B {
        // SAFETY: as in `next`.
        self.entries.fold(first, |folded, entry| each(folded, unsafe { parts_of(entry) }))
    }
}

impl<K, V> FusedIterator for Iter<'_, K, V> {}

impl<K, V> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("unit", &self.entries.walk.unit).finish_non_exhaustive()
    }
}
