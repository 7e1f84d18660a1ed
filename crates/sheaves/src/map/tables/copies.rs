//! Copies of what the places of buckets hold, for an iteration: some buckets at a time, so that it
//! waits for the memory of all of them at once.

use core::iter::FusedIterator;

use super::bucket::{Bucket, Place};
use super::walk::Walk;

/// Entries that are copied at a time.
const BATCH: usize = 64;

/// The room for copies of a bucket: its places, rounded up to a power of two.
pub(in crate::map) const COPIES: usize = 8;

/// What an iteration copies of each entry.
pub(in crate::map) trait Part<P: Place>: Copy {
    /// What stands where nothing is copied yet.
    const NONE: Self;

    /// Copies it from a bucket alone; returns the number of entries.
    fn copy(bucket: &Bucket<P>, copies: &mut [Self; COPIES]) -> usize;
}

impl<P: Place> Bucket<P> {
    /// Copies something of each entry of this bucket alone; returns their number. Without branches:
    /// the next copy replaces that of a vacant place.
    #[inline(always)]
    pub(in crate::map) fn copy_each<T>(
        &self,
        copies: &mut [T; COPIES],
        copy: impl Fn(&P) -> T,
    ) -> usize {
        let word = self.word();
        let mut count = 0;
        for (place, content) in self.places.iter().enumerate() {
            copies[count % COPIES] = copy(content);
            count += (word >> (8 * place + 7) & 1) as usize;
        }
        count
    }
}

/// Copies of a part of each entry.
pub(in crate::map) struct Copies<'g, P: Place, T> {
    pub(in crate::map) walk: Walk<'g, P>,
    /// Those of some buckets, and which of them comes next.
    batch: [T; BATCH],
    next: usize,
    count: usize,
}

impl<'g, P: Place, T: Part<P>> Copies<'g, P, T> {
    pub(in crate::map) fn new(walk: Walk<'g, P>) -> Self {
        Copies { walk, batch: [T::NONE; BATCH], next: 0, count: 0 }
    }

    /// Copies the next entries; false at the end.
    #[inline(always)]
    fn refill(&mut self) -> bool {
        (self.next, self.count) = (0, 0);
        while let Some(room) = self.batch[self.count..].first_chunk_mut::<COPIES>() {
            let Some(bucket) = self.walk.next_bucket() else { break };
            self.count += T::copy(bucket, room);
        }
        self.count > 0
    }
}

impl<P: Place, T: Part<P>> Iterator for Copies<'_, P, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if self.next == self.count && !self.refill() {
            return None;
        }
        self.next += 1;
        Some(self.batch[self.next - 1])
    }

    #[inline]
    fn fold<B, F: FnMut(B, T) -> B>(mut self, first: B, mut each: F) -> B {
        let mut folded = first;
        loop {
            for copy in &self.batch[self.next..self.count] {
                folded = each(folded, *copy);
            }
            if !self.refill() {
                return folded;
            }
        }
    }
}

impl<P: Place, T: Part<P>> FusedIterator for Copies<'_, P, T> {}
