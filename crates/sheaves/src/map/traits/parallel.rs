//! Parallel iteration, with the feature `rayon`.

use core::fmt;
use core::hash::{BuildHasher, Hash};

use rayon::iter::plumbing::{Folder, UnindexedConsumer, UnindexedProducer, bridge_unindexed};
use rayon::iter::{FromParallelIterator, IntoParallelIterator, ParallelExtend, ParallelIterator};
use sheaves_rcu::{Guard, read};

use crate::map::{Iter, RcuHashMap};

impl<K: Hash + Eq + Sync, V: Sync, S: BuildHasher> RcuHashMap<K, V, S> {
    /// [`RcuHashMap::iter`] by rayon's threads. The guard of the caller is that of all of them.
    ///
    /// So the caller's read section lasts while closures run in other threads. One that waits for a
    /// grace period there, by [`synchronize`] or [`barrier`], waits for ever.
    ///
    /// [`synchronize`]: crate::rcu::synchronize
    /// [`barrier`]: crate::rcu::defer::barrier
    ///
    /// ```
    /// use rayon::iter::ParallelIterator;
    /// use sheaves::{map::RcuHashMap, rcu::read};
    ///
    /// let map: RcuHashMap<u64, u64> = (0..1000).map(|key| (key, 2 * key)).collect();
    /// assert_eq!(map.par_iter(&read()).map(|(_, value)| value).sum::<u64>(), 999_000);
    /// ```
    pub fn par_iter<'g>(&'g self, guard: &'g Guard) -> ParIter<'g, K, V> {
        ParIter { entries: self.iter(guard) }
    }
}

/// The entries of a map: see [`RcuHashMap::par_iter`].
pub struct ParIter<'g, K, V> {
    entries: Iter<'g, K, V>,
}

// SAFETY: it gives shared access to keys and values. What it borrows is kept by the guard of its
// lifetime, also for other threads.
unsafe impl<K: Sync, V: Sync> Send for ParIter<'_, K, V> {}

impl<'g, K: Sync, V: Sync> ParallelIterator for ParIter<'g, K, V> {
    type Item = (&'g K, &'g V);

    fn drive_unindexed<C: UnindexedConsumer<Self::Item>>(self, consumer: C) -> C::Result {
        bridge_unindexed(self, consumer)
    }
}

impl<'g, K: Sync, V: Sync> UnindexedProducer for ParIter<'g, K, V> {
    type Item = (&'g K, &'g V);

    fn split(self) -> (Self, Option<Self>) {
        let (entries, others) = self.entries.split();
        (ParIter { entries }, others.map(|entries| ParIter { entries }))
    }

    fn fold_with<F: Folder<Self::Item>>(self, folder: F) -> F {
        folder.consume_iter(self.entries)
    }
}

impl<K, V> fmt::Debug for ParIter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ParIter").field(&self.entries).finish()
    }
}

/// Inserts in rayon's threads.
impl<K, V, S> ParallelExtend<(K, V)> for &RcuHashMap<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Sync,
{
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        let map = *self;
        entries.into_par_iter().for_each(|(key, value)| _ = map.insert(key, value, &read()));
    }
}

/// As that of a shared reference.
impl<K, V, S> ParallelExtend<(K, V)> for RcuHashMap<K, V, S>
where
    K: Hash + Eq + Send + Sync,
    V: Send + Sync,
    S: BuildHasher + Sync,
{
    fn par_extend<I: IntoParallelIterator<Item = (K, V)>>(&mut self, entries: I) {
        (&*self).par_extend(entries);
    }
}

impl<K, V, S> FromParallelIterator<(K, V)> for RcuHashMap<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Default + Sync,
{
    fn from_par_iter<I: IntoParallelIterator<Item = (K, V)>>(entries: I) -> RcuHashMap<K, V, S> {
        let mut map = RcuHashMap::default();
        map.par_extend(entries);
        map
    }
}
