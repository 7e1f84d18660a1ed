//! Hints about the free runs of a span (a block or a chunk), which save reading its bitmap.
//!
//! | field | meaning |
//! |---|---|
//! | contig | the longest known free run; 0: none |
//! | scan | the longest free run before contig, 0: not known; or one as long as contig, after it |
//! | first free | the first zero bit |
//! | left, right | the free runs at the edges; only of a block |
//!
//! All are exact; only the scan hint may be unset. So "no run before contig" needs no field: it
//! holds when contig begins at the first free bit. The scan hint is that of Linux's `mm/percpu.c`
//! (5.2), where it is not exact.
//!
//! Everything is in bits, relative to the span.

/// Bits of a block, which is one page.
pub(super) const BLOCK_BITS: u32 = 1024;
/// Words of a block's part of a bitmap.
pub(super) const BLOCK_WORDS: usize = (BLOCK_BITS / u64::BITS) as usize;

/// The bits from `start` up to, but not including, `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Run {
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
    pub(super) const fn overlaps(self, other: Run) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// The block in which the run begins.
    #[inline(always)]
    pub(super) const fn first_block(self) -> usize {
        (self.start / BLOCK_BITS) as usize
    }

    /// The block in which the run ends; the run is not empty.
    #[inline(always)]
    pub(super) const fn last_block(self) -> usize {
        ((self.end - 1) / BLOCK_BITS) as usize
    }
}

/// The hints of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Hints {
    pub(super) contig: u32,
    pub(super) contig_start: u32,
    pub(super) scan: u32,
    pub(super) scan_start: u32,
    pub(super) first_free: u32,
    pub(super) left: u32,
    pub(super) right: u32,
    /// Bits of the span.
    pub(super) bits: u32,
}

impl Hints {
    /// A span without an object.
    pub(super) const fn free(bits: u32) -> Hints {
        Hints { contig: bits, first_free: 0, left: bits, right: bits, ..Hints::full(bits) }
    }

    /// A span without a free bit.
    pub(super) const fn full(bits: u32) -> Hints {
        let (contig, contig_start, scan, scan_start) = (0, 0, 0, 0);
        let (first_free, left, right) = (bits, 0, 0);
        Hints { contig, contig_start, scan, scan_start, first_free, left, right, bits }
    }

    #[inline(always)]
    pub(super) const fn contig_run(&self) -> Run {
        Run::new(self.contig_start, self.contig)
    }

    #[inline(always)]
    pub(super) const fn scan_run(&self) -> Run {
        Run::new(self.scan_start, self.scan)
    }

    #[inline(always)]
    pub(super) const fn is_free(&self) -> bool {
        self.left == self.bits
    }

    /// True when contig is the first run.
    #[inline(always)]
    pub(super) const fn nothing_before_contig(&self) -> bool {
        self.first_free >= self.contig_start
    }

    /// True when a run of `bits` bits can only be contig or after it.
    #[inline(always)]
    pub(super) const fn only_contig_fits(&self, bits: u32) -> bool {
        (self.scan > 0 && bits > self.scan) || self.nothing_before_contig()
    }

    /// The bit where the search for a run of `bits` bits may begin.
    #[inline(always)]
    pub(super) const fn resume(&self, bits: u32) -> u32 {
        if self.scan != 0 && self.scan_start < self.contig_start && bits > self.scan {
            self.scan_start + self.scan
        } else {
            self.first_free
        }
    }

    #[inline(always)]
    pub(super) fn drop_scan(&mut self) {
        (self.scan, self.scan_start) = (0, 0);
    }

    #[inline(always)]
    pub(super) fn drop_contig(&mut self) {
        (self.contig, self.contig_start) = (0, 0);
    }

    #[inline(always)]
    fn set_contig(&mut self, run: Run) {
        self.contig = run.bits();
        self.contig_start = run.start;
    }

    #[inline(always)]
    fn set_scan(&mut self, run: Run) {
        self.scan = run.bits();
        self.scan_start = run.start;
    }

    /// Begins to find contig again; returns the bit where the search begins. The scan hint, if set,
    /// becomes contig: no run before it is longer. Otherwise both are unset.
    #[inline]
    pub(super) fn begin_refresh(&mut self) -> u32 {
        let scan = self.scan_run();
        self.drop_scan();
        if scan.bits() == 0 {
            self.drop_contig();
            return self.first_free;
        }
        self.set_contig(scan);
        scan.end
    }

    /// Enters a free run that is maximal within the span.
    #[inline]
    pub(super) fn offer(&mut self, run: Run) {
        let bits = run.bits();
        // Before the first free bit changes, because that is the indicator.
        let alone = self.nothing_before_contig();
        self.first_free = self.first_free.min(run.start);
        if run.start == 0 {
            self.left = bits;
        }
        if run.end == self.bits {
            self.right = bits;
        }
        if bits > self.contig {
            self.offer_longer(run);
        } else if bits == self.contig {
            self.offer_equal(run);
        } else if run.start < self.contig_start {
            self.offer_shorter(run, alone);
        }
    }

    #[inline]
    fn offer_longer(&mut self, run: Run) {
        let contig = self.contig_run();
        self.set_contig(run);
        if run.start > contig.start {
            // A scan hint after the new contig, or in it, is as long as the old contig.
            if contig.bits() > self.scan || run.start <= self.scan_start {
                self.set_scan(contig);
            }
        } else if run.start <= self.scan_start {
            // Otherwise it is still the longest run before contig.
            self.drop_scan();
        }
    }

    #[inline]
    fn offer_equal(&mut self, run: Run) {
        let contig = self.contig_run();
        if run.start == contig.start || run.bits() == 0 {
            return;
        }
        let better = run.start == 0 || run.start.trailing_zeros() > contig.start.trailing_zeros();
        if contig.start != 0 && better {
            self.set_contig(run);
            self.set_scan(contig);
        } else if run.start > self.scan_start || contig.bits() > self.scan {
            self.set_scan(run);
        }
    }

    /// For a run before contig. `alone`: there was none before this run.
    #[inline]
    fn offer_shorter(&mut self, run: Run, alone: bool) {
        let bits = run.bits();
        let longest = bits > self.scan || (bits == self.scan && run.start > self.scan_start);
        // If the hint is unset, other runs are unknown, and any of them may be longer than this
        // one.
        let known = self.scan > 0 || alone;
        if longest && known {
            self.set_scan(run);
        }
    }

    /// Updates the hints after an area was taken out of the free runs. `alone`: contig was the
    /// first run before. True when contig was broken and has to be found again.
    #[inline]
    pub(super) fn take(&mut self, area: Run, alone: bool) -> bool {
        self.left = self.left.min(area.start);
        self.right = self.right.min(self.bits - area.end.min(self.bits));
        if area.overlaps(self.scan_run()) {
            self.drop_scan();
        }
        area.overlaps(self.contig_run()) && !self.shrink(area, alone)
    }

    /// Shortens contig by an area of it; false when another run may be the longest now.
    #[inline]
    fn shrink(&mut self, area: Run, alone: bool) -> bool {
        let contig = self.contig_run();
        let head = Run { start: contig.start, end: area.start };
        let tail = Run { start: area.end, end: contig.end };
        let longest = head.bits().max(tail.bits());
        let known = contig.end == self.bits && (self.scan > 0 || alone);
        if !known || longest < self.scan {
            return false;
        }
        if longest == 0 {
            self.drop_contig();
        } else if tail.bits() >= head.bits() {
            self.set_contig(tail);
            if head.bits() > 0 && head.bits() >= self.scan {
                self.set_scan(head);
            }
        } else {
            self.set_contig(head);
        }
        true
    }
}
