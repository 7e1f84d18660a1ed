//! Traits of the map: of the language, and those of rayon and serde.

mod into_iter;
#[cfg(feature = "rayon")]
mod parallel;
#[cfg(feature = "serde")]
mod serial;

use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::panic::{RefUnwindSafe, UnwindSafe};

use sheaves_rcu::read;

use super::RcuHashMap;
pub use into_iter::IntoIter;
#[cfg(feature = "rayon")]
pub use parallel::ParIter;

impl<K: Send + 'static, V: Send + 'static, S: Default> Default for RcuHashMap<K, V, S> {
    fn default() -> RcuHashMap<K, V, S> {
        RcuHashMap::with_hasher(S::default())
    }
}

// A panic of a closure, of `Eq` or of a destructor leaves the map whole.
impl<K: UnwindSafe, V: UnwindSafe, S: UnwindSafe> UnwindSafe for RcuHashMap<K, V, S> {}
impl<K: RefUnwindSafe, V: RefUnwindSafe, S: RefUnwindSafe> RefUnwindSafe for RcuHashMap<K, V, S> {}

impl<K: Hash + Eq + fmt::Debug, V: fmt::Debug, S: BuildHasher> fmt::Debug for RcuHashMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter(&read())).finish()
    }
}

/// A map with the entries of an iteration; of a scoped map, a scoped one. In one read section:
/// meanwhile nothing is freed that is removed.
impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher + Clone> Clone for RcuHashMap<K, V, S> {
    fn clone(&self) -> RcuHashMap<K, V, S> {
        let mut clone = RcuHashMap::empty(self.tables.hasher.clone(), self.limbo.defer);
        clone.extend(self.iter(&read()).map(|(key, value)| (key.clone(), value.clone())));
        clone
    }
}

/// Compares the entries of an iteration over `self`, in one read section.
impl<K: Hash + Eq, V: PartialEq, S: BuildHasher> PartialEq for RcuHashMap<K, V, S> {
    fn eq(&self, other: &RcuHashMap<K, V, S>) -> bool {
        let guard = read();
        let is_in_other = |(key, value): (&K, &V)| other.get(key, &guard) == Some(value);
        self.len() == other.len() && self.iter(&guard).all(is_in_other)
    }
}

impl<K: Hash + Eq, V: Eq, S: BuildHasher> Eq for RcuHashMap<K, V, S> {}

/// Inserts entry by entry, each in a read section of its own.
impl<K: Hash + Eq, V, S: BuildHasher> Extend<(K, V)> for &RcuHashMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value, &read());
        }
    }
}

/// As that of a shared reference.
impl<K: Hash + Eq, V, S: BuildHasher> Extend<(K, V)> for RcuHashMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        (&*self).extend(entries);
    }
}

/// ```
/// use sheaves::map::RcuHashMap;
///
/// type Squares = RcuHashMap<u64, u64>;
/// let squares: Squares = (1..4).map(|number| (number, number * number)).collect();
/// assert_eq!(squares, Squares::from([(1, 1), (2, 4), (3, 9)]));
/// assert_eq!(squares.clone(), squares);
/// ```
impl<K, V, S> FromIterator<(K, V)> for RcuHashMap<K, V, S>
where
    K: Hash + Eq + Send + 'static,
    V: Send + 'static,
    S: BuildHasher + Default,
{
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> RcuHashMap<K, V, S> {
        let mut map = RcuHashMap::default();
        map.extend(entries);
        map
    }
}

impl<K, V, S, const COUNT: usize> From<[(K, V); COUNT]> for RcuHashMap<K, V, S>
where
    K: Hash + Eq + Send + 'static,
    V: Send + 'static,
    S: BuildHasher + Default,
{
    fn from(entries: [(K, V); COUNT]) -> RcuHashMap<K, V, S> {
        entries.into_iter().collect()
    }
}
