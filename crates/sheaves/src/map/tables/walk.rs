//! The buckets of a map, one after the other, while its table is resized.

use core::ops::Range;

use super::bucket::{Bucket, Place};
use super::lock::MOVED;
use super::table::Table;

/// Buckets of a map, for an iteration.
///
/// It stays with the table that it began with and, if entries were moving out of that, with the
/// one that they moved to. A chain whose entries move away later is complete for it all the same:
/// they also remain in there, and are freed after the read section.
pub(in crate::map) struct Walk<'g, P: Place> {
    table: Option<&'g Table<P>>,
    /// Where entries were moving to at the beginning.
    target: Option<&'g Table<P>>,
    /// The next unit, the one after the last, and the next chain of the one before.
    pub(in crate::map) unit: usize,
    end: usize,
    rest: Option<(&'g Table<P>, usize)>,
    /// Overflow buckets that are on their way from memory while others are visited: a ring, its
    /// first one, and their number.
    later: [Option<&'g Bucket<P>>; LATER_MAX],
    first: usize,
    count: usize,
}

const LATER_MAX: usize = 16;

impl<'g, P: Place> Walk<'g, P> {
    /// # Safety
    /// Tables are not freed during `'g`, and this one was the map's at some moment of it.
    pub(in crate::map) unsafe fn new(table: Option<&'g Table<P>>) -> Walk<'g, P> {
        // SAFETY: the caller's contract.
        let target = table.and_then(|table| unsafe { table.next() });
        let end = table.map_or(0, |table| table.units(target.unwrap_or(table)));
        Walk::over(table, target, 0..end)
    }

    fn over(
        table: Option<&'g Table<P>>,
        target: Option<&'g Table<P>>,
        units: Range<usize>,
    ) -> Walk<'g, P> {
        let Range { start: unit, end } = units;
        Walk { table, target, unit, end, rest: None, later: [None; LATER_MAX], first: 0, count: 0 }
    }

    /// Makes it one over the unit at `position`. Returns the position after that, if it was not the
    /// last one.
    ///
    /// Positions are numbers of units in the order of their reversed bits. So a unit comes before
    /// or after the same entries whatever the size of the table: if that grows, the units that it
    /// becomes follow each other, and if it shrinks, a part of a unit comes again (Pieter Noordhuis
    /// in Redis, `dictScan`).
    pub(in crate::map) fn limit_to(&mut self, position: usize) -> Option<usize> {
        let bits = self.end.checked_sub(1)?;
        self.unit = position & bits;
        self.end = self.unit + 1;
        let after = (position | !bits).reverse_bits().wrapping_add(1).reverse_bits();
        (after != 0).then_some(after)
    }

    /// Splits off the second half of the units that are left, unless they are few.
    #[cfg(feature = "rayon")]
    pub(in crate::map) fn split(&mut self) -> Option<Walk<'g, P>> {
        const UNITS_MIN: usize = 16;
        let unit = self.unit + (self.end - self.unit) / 2;
        if self.end - unit < UNITS_MIN {
            return None;
        }
        let end = core::mem::replace(&mut self.end, unit);
        let (table, target) = (self.table, self.target);
        Some(Walk::over(table, target, unit..end))
    }

    /// The next bucket. An overflow bucket comes some time after the one before it in its chain.
    #[inline(always)]
    pub(in crate::map) fn next_bucket(&mut self) -> Option<&'g Bucket<P>> {
        let chain = if self.count < LATER_MAX { self.next_chain() } else { None };
        let bucket = chain.or_else(|| self.take_later())?;
        // SAFETY: buckets are not freed in the read section.
        if let Some(next) = unsafe { bucket.next() } {
            next.prefetch();
            self.later[(self.first + self.count) % LATER_MAX] = Some(next);
            self.count += 1;
        }
        Some(bucket)
    }

    fn take_later(&mut self) -> Option<&'g Bucket<P>> {
        self.count = self.count.checked_sub(1)?;
        let first = self.first;
        self.first = (first + 1) % LATER_MAX;
        self.later[first]
    }

    #[inline(always)]
    fn next_chain(&mut self) -> Option<&'g Bucket<P>> {
        let (table, target) = (self.table?, self.target);
        let (source, chain) = match self.rest.take() {
            Some(rest) => rest,
            None if self.unit == self.end => return None,
            None => {
                let first = table.bucket(self.unit as u64);
                self.unit += 1;
                // Of a unit the first chain is marked first, when all of its entries are in the
                // target.
                let source = target.filter(|_| first.word() & MOVED != 0).unwrap_or(table);
                (source, self.unit - 1)
            }
        };
        if let Some(target) = target {
            let next = chain + table.units(target);
            self.rest = (next < source.buckets()).then_some((source, next));
        }
        Some(source.bucket(chain as u64))
    }
}
