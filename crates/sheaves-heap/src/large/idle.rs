//! Mappings that no block uses, kept with their contents for the blocks to come.
//!
//! A program that takes a block of some MiB for each request would otherwise pay for two system
//! calls and a page fault for each page, each time. Ranges that no block has used for
//! `SHEAVES_DECAY_MS` are unmapped: by the keeper, see [`sheaves_rcu::internal::arm_keeper`]. While
//! there is none, they are unmapped when a block is freed or shortened, and so is what is more than
//! is in use.
//!
//! Neighbours are joined. A range that is much larger than a block is split, and the block gets the
//! first part: so the block can grow into the rest. In a hardened process, see `hardened`, none are
//! joined, and a block gets the last part. Those that have not moved wait there: what waits has
//! [`WAIT_BYTES`] of pages in use at most.

use sheaves_slab::internal::check_pages;
use sheaves_slab::internal::checking::is_hardened;
use sheaves_sys::map;

/// The largest block whose mapping is kept. Without a keeper, as many bytes may be kept however
/// little is in use.
pub(crate) const IDLE_BYTES_MAX: usize = 64 << 20;
/// The most ranges: one search takes some 50 ns.
pub(crate) const RANGES_MAX: usize = 64;
/// Of a hardened process. Each block counts for a 32nd part at least: half of the ranges are left
/// for other blocks.
pub(crate) const WAIT_BYTES: usize = 4 << 20;

/// Address and bytes.
pub(crate) type Pages = (usize, usize);

/// A mapped range that is not used.
#[derive(Debug, Clone, Copy)]
struct Range {
    address: usize,
    bytes: usize,
    /// When the first part of it was freed.
    since_ms: u64,
    /// Where it waits, the bytes behind its inaccessible page that were cleared; else 0.
    cleared: usize,
    /// It may be taken once [`Idle::freed`] has reached this.
    from: usize,
}

impl Range {
    const NONE: Range = Range { address: 0, bytes: 0, since_ms: 0, cleared: 0, from: 0 };

    /// Checks that nothing was written to what waits here.
    fn check(&self, is_whole: bool) {
        check_pages(self.address + map::page_bytes(), self.cleared, is_whole);
    }

    fn touches(&self, other: &Range) -> bool {
        self.address + self.bytes == other.address || other.address + other.bytes == self.address
    }
}

/// All idle ranges, in no order.
#[derive(Debug)]
pub(crate) struct Idle {
    ranges: [Range; RANGES_MAX],
    count: usize,
    bytes: usize,
    /// What was cleared so far where it waits, in bytes.
    freed: usize,
}

impl Idle {
    pub(crate) const fn new() -> Idle {
        Idle { ranges: [Range::NONE; RANGES_MAX], count: 0, bytes: 0, freed: 0 }
    }

    /// Sum of the bytes of all ranges.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn ranges(&self) -> &[Range] {
        &self.ranges[..self.count]
    }

    /// Takes the smallest range that fits. Its length is `bytes`, or up to a quarter more.
    pub(crate) fn take(&mut self, bytes: usize, align: usize) -> Option<Pages> {
        let index = self.best_fit(bytes, align)?;
        Some(self.take_from(index, bytes))
    }

    /// Takes the first part of the largest range: for a block that grows, and may do so again.
    pub(crate) fn take_of_largest(&mut self, bytes: usize) -> Option<Pages> {
        let ranges = self.ranges().iter().enumerate();
        let (index, largest) = ranges.max_by_key(|(_, range)| range.bytes)?;
        (largest.bytes >= bytes).then(|| self.take_from(index, bytes))
    }

    /// In a hardened process, where each range has an inaccessible page at both ends: takes the
    /// end of the smallest range that has that number of bytes or is longer by `rest_min`. `forbid`
    /// makes the last page of the rest inaccessible, and the first one of what is taken.
    pub(crate) fn take_end(
        &mut self,
        bytes: usize,
        rest_min: usize,
        forbid: impl FnOnce(usize) -> bool,
    ) -> Option<usize> {
        let fits = |range: &Range| {
            range.from <= self.freed && (range.bytes == bytes || range.bytes >= bytes + rest_min)
        };
        let fitting = self.ranges().iter().enumerate().filter(|(_, range)| fits(range));
        let (index, range) = fitting.min_by_key(|(_, range)| range.bytes)?;
        let start = range.address + range.bytes - bytes;
        range.check(false);
        if range.bytes != bytes && !forbid(start) {
            return None;
        }
        let rest = &mut self.ranges[index];
        rest.address -= bytes;
        // As much of it as is left, between two inaccessible pages.
        let rest_bytes = rest.bytes - bytes;
        rest.cleared = rest.cleared.min(rest_bytes.saturating_sub(2 * map::page_bytes()));
        self.take_front(index, bytes);
        Some(start)
    }

    fn take_from(&mut self, index: usize, bytes: usize) -> Pages {
        let Range { address, bytes: all, .. } = self.ranges[index];
        let taken = if all - bytes <= bytes / 4 { all } else { bytes };
        self.take_front(index, taken);
        (address, taken)
    }

    /// True when [`Idle::take`] would find a range.
    pub(crate) fn has(&self, bytes: usize, align: usize) -> bool {
        self.best_fit(bytes, align).is_some()
    }

    fn best_fit(&self, bytes: usize, align: usize) -> Option<usize> {
        let fits = |range: &Range| range.bytes >= bytes && range.address.is_multiple_of(align);
        let fitting = self.ranges().iter().enumerate().filter(|(_, range)| fits(range));
        fitting.min_by_key(|(_, range)| range.bytes).map(|(index, _)| index)
    }

    /// Takes the `more` bytes from `address` on; false when they do not begin an idle range.
    #[must_use]
    pub(crate) fn extend(&mut self, address: usize, more: usize) -> bool {
        let is_next = |range: &Range| range.address == address && range.bytes >= more;
        let Some(index) = self.ranges().iter().position(is_next) else { return false };
        self.take_front(index, more);
        true
    }

    fn take_front(&mut self, index: usize, bytes: usize) {
        let range = &mut self.ranges[index];
        range.address += bytes;
        range.bytes -= bytes;
        self.bytes -= bytes;
        if range.bytes == 0 {
            self.count -= 1;
            self.ranges[index] = self.ranges[self.count];
        }
    }

    /// Adds a range. If there are too many, returns the smallest, which the caller unmaps.
    #[must_use]
    pub(crate) fn put(&mut self, address: usize, bytes: usize, now_ms: u64) -> Option<Pages> {
        self.add(Range { address, bytes, since_ms: now_ms, ..Range::NONE })
    }

    /// The same of one that waits.
    #[must_use]
    pub(crate) fn put_waiting(
        &mut self,
        cleared: usize,
        pages: Pages,
        now_ms: u64,
    ) -> Option<Pages> {
        let from = self.freed + WAIT_BYTES;
        self.freed += cleared.max(WAIT_BYTES / 32);
        self.add(Range { address: pages.0, bytes: pages.1, since_ms: now_ms, cleared, from })
    }

    fn add(&mut self, mut new: Range) -> Option<Pages> {
        self.bytes += new.bytes;
        while !is_hardened()
            && let Some(index) = self.ranges().iter().position(|other| new.touches(other))
        {
            let other = self.ranges[index];
            self.count -= 1;
            self.ranges[index] = self.ranges[self.count];
            new = Range {
                address: new.address.min(other.address),
                bytes: new.bytes + other.bytes,
                since_ms: new.since_ms.min(other.since_ms),
                ..Range::NONE
            };
        }
        let smallest = (0..self.count).min_by_key(|index| self.ranges[*index].bytes);
        let surplus =
            smallest.filter(|_| self.count == RANGES_MAX).map(|index| self.take_all(index));
        self.ranges[self.count] = new;
        self.count += 1;
        surplus
    }

    /// Takes the oldest range, if it was freed before `before_ms` or all ranges have more than
    /// `bytes_max`.
    pub(crate) fn surplus(&mut self, bytes_max: usize, before_ms: u64) -> Option<Pages> {
        let is_too_old = |range: &Range| range.since_ms < before_ms;
        let is_surplus = self.bytes > bytes_max || self.ranges().iter().any(is_too_old);
        is_surplus.then(|| self.take_oldest())?
    }

    /// Takes the oldest range.
    pub(crate) fn take_oldest(&mut self) -> Option<Pages> {
        let ages = self.ranges().iter().enumerate();
        let (index, _) = ages.min_by_key(|(_, range)| range.since_ms)?;
        Some(self.take_all(index))
    }

    fn take_all(&mut self, index: usize) -> Pages {
        let range = self.ranges[index];
        range.check(false);
        self.take_front(index, range.bytes);
        (range.address, range.bytes)
    }

    /// Checks all that waits.
    pub(crate) fn check(&self) {
        self.ranges().iter().for_each(|range| range.check(true));
    }

    /// True for an address in what waits.
    pub(crate) fn is_waiting(&self, address: usize) -> bool {
        let is_in = |range: &Range| (range.address..range.address + range.bytes).contains(&address);
        self.ranges().iter().any(|range| range.from != 0 && is_in(range))
    }
}

#[cfg(test)]
#[path = "../../tests/unit/idle.rs"]
mod tests;
