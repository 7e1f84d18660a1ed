//! A set and the guard of a read section in one.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::iter::FusedIterator;

use sheaves_rcu::{Guard, read};

use super::RcuHashSet;

/// A set in a read section: see [`RcuHashSet::pin`]. Its methods are those of the set, which says
/// what each does; what they return is valid as long as it.
pub struct PinnedSet<'set, T, S> {
    set: &'set RcuHashSet<T, S>,
    guard: Guard,
}

impl<T: Hash + Eq, S: BuildHasher> RcuHashSet<T, S> {
    /// Begins a read section, for calls of the set that need no other guard.
    ///
    /// ```
    /// use sheaves::map::RcuHashSet;
    ///
    /// let seen: RcuHashSet<&str> = RcuHashSet::new();
    /// let pinned = seen.pin();
    /// assert!(pinned.insert("a") && !pinned.insert("a") && pinned.contains("a"));
    /// assert!(pinned.iter().eq([&"a"]) && pinned.remove("a"));
    /// ```
    #[inline]
    pub fn pin(&self) -> PinnedSet<'_, T, S> {
        PinnedSet { set: self, guard: read() }
    }
}

impl<'set, T: Hash + Eq, S: BuildHasher> PinnedSet<'set, T, S> {
    /// The set.
    #[must_use]
    pub fn set(&self) -> &'set RcuHashSet<T, S> {
        self.set
    }

    /// The guard of the read section.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// See [`RcuHashSet::len`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// See [`RcuHashSet::is_empty`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// See [`RcuHashSet::contains`].
    #[inline]
    #[must_use]
    pub fn contains<Q: Hash + Eq + ?Sized>(&self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.get(value).is_some()
    }

    /// See [`RcuHashSet::get`].
    #[inline]
    pub fn get<Q: Hash + Eq + ?Sized>(&self, value: &Q) -> Option<&T>
    where
        T: Borrow<Q>,
    {
        self.set.get(value, &self.guard)
    }

    /// See [`RcuHashSet::iter`].
    pub fn iter(&self) -> impl FusedIterator<Item = &T> {
        self.set.iter(&self.guard)
    }

    /// See [`RcuHashSet::insert`].
    pub fn insert(&self, value: T) -> bool {
        self.set.insert(value, &self.guard)
    }

    /// See [`RcuHashSet::remove`].
    pub fn remove<Q: Hash + Eq + ?Sized>(&self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.set.remove(value, &self.guard)
    }

    /// See [`RcuHashSet::take`].
    pub fn take<Q: Hash + Eq + ?Sized>(&self, value: &Q) -> Option<&T>
    where
        T: Borrow<Q>,
    {
        self.set.take(value, &self.guard)
    }

    /// See [`RcuHashSet::reserve`].
    pub fn reserve(&self, additional: usize) {
        self.set.reserve(additional);
    }

    /// See [`RcuHashSet::retain`]. The read section of this lasts meanwhile.
    pub fn retain(&self, keep: impl FnMut(&T) -> bool) {
        self.set.retain(keep);
    }

    /// See [`RcuHashSet::clear`].
    pub fn clear(&self) {
        self.set.clear();
    }
}

impl<T: Hash + Eq + fmt::Debug, S: BuildHasher> fmt::Debug for PinnedSet<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.set.fmt(f)
    }
}
