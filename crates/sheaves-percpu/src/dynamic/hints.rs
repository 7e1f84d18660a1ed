//! Hints about the free runs of a span (a page or a chunk), which save reading its bitmap.
//!
//! | field | meaning |
//! |---|---|
//! | contig | the longest known free run; empty: none |
//! | scan | the longest free run before contig, or one as long as contig after it; empty: unknown |
//! | first free | the first zero bit |
//! | left, right | the free runs at the edges; only of a page |
//!
//! All are exact; only the scan hint may be unset. So "no run before contig" needs no field: it
//! holds when contig begins at the first free bit. The scan hint is that of Linux's `mm/percpu.c`
//! (5.2), where it is not exact.
//!
//! Everything is in bits, relative to the span.

use core::ops::Range;

pub(super) const PAGE_BITS: u32 = 1024;
pub(super) const PAGE_WORDS: usize = (PAGE_BITS / u64::BITS) as usize;

/// The bits from `start` up to, but not including, `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Run {
    pub(super) const EMPTY: Run = Run { start: 0, end: 0 };

    #[inline(always)]
    pub(super) const fn new(start: u32, bits: u32) -> Run {
        Run { start, end: start + bits }
    }

    /// Number of its bits; 0 if it ends before it begins.
    #[inline(always)]
    pub(super) const fn bits(self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    #[inline(always)]
    pub(super) const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    #[inline(always)]
    pub(super) const fn overlaps(self, other: Run) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// The run relative to the chunk, from one relative to the page whose first bit is `base`.
    #[inline(always)]
    pub(super) const fn after(self, base: u32) -> Run {
        Run { start: base + self.start, end: base + self.end }
    }

    #[inline(always)]
    pub(super) fn pages(self) -> Range<u32> {
        self.start / PAGE_BITS..self.end.div_ceil(PAGE_BITS)
    }

    /// Its part in a page, relative to the page.
    #[inline(always)]
    pub(super) fn in_page(self, page: usize) -> Run {
        let base = page as u32 * PAGE_BITS;
        Run { start: self.start.max(base) - base, end: self.end.min(base + PAGE_BITS) - base }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Hints {
    pub(super) contig: Run,
    pub(super) scan: Run,
    pub(super) first_free: u32,
    pub(super) left: u32,
    pub(super) right: u32,
    pub(super) bits: u32,
}

impl Hints {
    pub(super) const fn free(bits: u32) -> Hints {
        let contig = Run::new(0, bits);
        Hints { contig, first_free: 0, left: bits, right: bits, ..Hints::full(bits) }
    }

    pub(super) const fn full(bits: u32) -> Hints {
        let (contig, scan) = (Run::EMPTY, Run::EMPTY);
        Hints { contig, scan, first_free: bits, left: 0, right: 0, bits }
    }

    #[inline(always)]
    pub(super) const fn is_free(&self) -> bool {
        self.left == self.bits
    }

    /// True when contig is the first run.
    #[inline(always)]
    pub(super) const fn nothing_before_contig(&self) -> bool {
        self.first_free >= self.contig.start
    }

    /// True when a run of `bits` bits can only be contig or after it.
    #[inline(always)]
    pub(super) const fn only_contig_fits(&self, bits: u32) -> bool {
        (!self.scan.is_empty() && bits > self.scan.bits()) || self.nothing_before_contig()
    }

    /// The bit where the search for a run of `bits` bits may begin.
    #[inline(always)]
    pub(super) const fn resume(&self, bits: u32) -> u32 {
        let is_before = !self.scan.is_empty() && self.scan.start < self.contig.start;
        if is_before && bits > self.scan.bits() { self.scan.end } else { self.first_free }
    }

    /// Begins to find contig again; returns the bit where the search begins. The scan hint, if set,
    /// becomes contig: no run before it is longer. Otherwise both are unset.
    #[inline]
    pub(super) fn begin_refresh(&mut self) -> u32 {
        self.contig = core::mem::replace(&mut self.scan, Run::EMPTY);
        if self.contig.is_empty() { self.first_free } else { self.contig.end }
    }

    /// Enters a free run that is maximal within the span.
    #[inline]
    pub(super) fn offer(&mut self, run: Run) {
        let bits = run.bits();
        // Read before `first_free` changes, because the answer depends on it.
        let alone = self.nothing_before_contig();
        self.first_free = self.first_free.min(run.start);
        if run.start == 0 {
            self.left = bits;
        }
        if run.end == self.bits {
            self.right = bits;
        }
        if bits > self.contig.bits() {
            self.offer_longer(run);
        } else if bits == self.contig.bits() {
            self.offer_equal(run);
        } else if run.start < self.contig.start {
            self.offer_shorter(run, alone);
        }
    }

    #[inline]
    fn offer_longer(&mut self, run: Run) {
        let contig = core::mem::replace(&mut self.contig, run);
        if run.start > contig.start {
            // A scan hint after the new contig, or in it, is as long as the old contig.
            if contig.bits() > self.scan.bits() || run.start <= self.scan.start {
                self.scan = contig;
            }
        } else if run.start <= self.scan.start {
            // Otherwise it is still the longest run before contig.
            self.scan = Run::EMPTY;
        }
    }

    #[inline]
    fn offer_equal(&mut self, run: Run) {
        let contig = self.contig;
        if run.start == contig.start || run.is_empty() {
            return;
        }
        let better = run.start == 0 || run.start.trailing_zeros() > contig.start.trailing_zeros();
        if contig.start != 0 && better {
            (self.contig, self.scan) = (run, contig);
        } else if run.start > self.scan.start || contig.bits() > self.scan.bits() {
            self.scan = run;
        }
    }

    /// For a run before contig. `alone`: no other run is before contig.
    #[inline]
    fn offer_shorter(&mut self, run: Run, alone: bool) {
        let (bits, scan_bits) = (run.bits(), self.scan.bits());
        let longest = bits > scan_bits || (bits == scan_bits && run.start > self.scan.start);
        // If the hint is unset, other runs are unknown, and any of them may be longer than this
        // one.
        let known = scan_bits > 0 || alone;
        if longest && known {
            self.scan = run;
        }
    }

    /// Updates the hints after an area was taken out of the free runs. `alone`: contig was the
    /// first run before. True when contig was broken and has to be found again.
    #[inline]
    pub(super) fn take(&mut self, area: Run, alone: bool) -> bool {
        self.left = self.left.min(area.start);
        self.right = self.right.min(self.bits - area.end.min(self.bits));
        if area.overlaps(self.scan) {
            self.scan = Run::EMPTY;
        }
        area.overlaps(self.contig) && !self.shrink(area, alone)
    }

    /// Shortens contig by an area of it; false when another run may be the longest now.
    #[inline]
    fn shrink(&mut self, area: Run, alone: bool) -> bool {
        let contig = self.contig;
        let head = Run { start: contig.start, end: area.start };
        let tail = Run { start: area.end, end: contig.end };
        let longest = head.bits().max(tail.bits());
        let known = contig.end == self.bits && (!self.scan.is_empty() || alone);
        if !known || longest < self.scan.bits() {
            return false;
        }
        if longest == 0 {
            self.contig = Run::EMPTY;
        } else if tail.bits() >= head.bits() {
            self.contig = tail;
            if head.bits() > 0 && head.bits() >= self.scan.bits() {
                self.scan = head;
            }
        } else {
            self.contig = head;
        }
        true
    }
}
