//! Traits of the language.

use core::fmt;
use core::hash::BuildHasher;

use sheaves_rcu::read;

use super::{RcuWordMap, Word};

impl<K, V, S: Default> Default for RcuWordMap<K, V, S> {
    fn default() -> RcuWordMap<K, V, S> {
        RcuWordMap::new()
    }
}

impl<K: Word + fmt::Debug, V: Word + fmt::Debug, S: BuildHasher> fmt::Debug
    for RcuWordMap<K, V, S>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter(&read())).finish()
    }
}

/// Inserts entry by entry.
impl<K: Word, V: Word, S: BuildHasher> Extend<(K, V)> for &RcuWordMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        entries.into_iter().for_each(|(key, value)| _ = self.insert(key, value));
    }
}

/// As that of a shared reference.
impl<K: Word, V: Word, S: BuildHasher> Extend<(K, V)> for RcuWordMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        (&*self).extend(entries);
    }
}

impl<K: Word, V: Word, S: BuildHasher + Default> FromIterator<(K, V)> for RcuWordMap<K, V, S> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> RcuWordMap<K, V, S> {
        let mut map = RcuWordMap::new();
        map.extend(entries);
        map
    }
}

impl<K: Word, V: Word, S, const COUNT: usize> From<[(K, V); COUNT]> for RcuWordMap<K, V, S>
where
    S: BuildHasher + Default,
{
    fn from(entries: [(K, V); COUNT]) -> RcuWordMap<K, V, S> {
        entries.into_iter().collect()
    }
}
