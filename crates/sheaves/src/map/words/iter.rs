//! Iteration over copies of all entries.

use core::fmt;
use core::hash::BuildHasher;
use core::iter::FusedIterator;
use core::marker::PhantomData;

use sheaves_rcu::Guard;

use super::super::tables::copies::Copies;
use super::pair::{Pair, Words};
use super::{RcuWordMap, Word};

impl<K: Word, V: Word, S: BuildHasher> RcuWordMap<K, V, S> {
    /// Copies of all entries, in no particular order.
    ///
    /// A key that is in the map from this call to the end of the iteration is returned exactly
    /// once, also if the map is resized, with the value of this call or a later one. A key that is
    /// inserted or removed during the iteration may be missed, or returned more than once.
    ///
    /// Never blocks. `for_each`, `sum` and others that are made of `fold` are faster than `next`.
    ///
    /// ```
    /// use sheaves::{map::RcuWordMap, rcu::read};
    ///
    /// let squares = RcuWordMap::<u64, u64>::from([(2, 4), (3, 9)]);
    /// assert_eq!(squares.iter(&read()).max(), Some((3, 9)));
    /// assert_eq!(squares.values(&read()).sum::<u64>(), 13);
    /// ```
    #[must_use]
    pub fn iter<'g>(&'g self, guard: &'g Guard) -> WordIter<'g, K, V> {
        WordIter { copies: self.tables.copies(guard), entries: PhantomData }
    }

    /// The keys, as [`RcuWordMap::iter`] returns them.
    pub fn keys<'g>(&'g self, guard: &'g Guard) -> impl FusedIterator<Item = K> {
        self.iter(guard).map(|(key, _)| key)
    }

    /// The values, as [`RcuWordMap::iter`] returns them, and faster.
    pub fn values<'g>(&'g self, guard: &'g Guard) -> impl FusedIterator<Item = V> {
        self.tables.copies(guard).map(V::from_word)
    }
}

/// Copies of the entries of a map: see [`RcuWordMap::iter`].
pub struct WordIter<'g, K, V> {
    copies: Copies<'g, Pair, Words>,
    entries: PhantomData<(K, V)>,
}

impl<K: Word, V: Word> Iterator for WordIter<'_, K, V> {
    type Item = (K, V);

    #[inline]
    fn next(&mut self) -> Option<(K, V)> {
        self.copies.next().map(of_words)
    }

    #[inline]
    fn fold<B, F: FnMut(B, (K, V)) -> B>(self, first: B, mut each: F) -> B {
        self.copies.fold(first, |folded, words| each(folded, of_words(words)))
    }
}

impl<K: Word, V: Word> FusedIterator for WordIter<'_, K, V> {}

fn of_words<K: Word, V: Word>((key, value): Words) -> (K, V) {
    (K::from_word(key), V::from_word(value))
}

impl<K, V> fmt::Debug for WordIter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WordIter").field("unit", &self.copies.walk.unit).finish_non_exhaustive()
    }
}
