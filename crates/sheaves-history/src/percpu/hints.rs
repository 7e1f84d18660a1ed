//! Hints about the free runs of a block or a chunk, `pcpu_block_md` of `mm/percpu.c`.

/// Bits of a block, which is a page.
pub(super) const BLOCK_BITS: u32 = 1024;

/// Bits from `start` to before `end`.
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

    #[inline(always)]
    pub(super) const fn bits(self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    #[inline(always)]
    pub(super) const fn overlaps(self, other: Run) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// The blocks that contain the run, which is not empty.
    #[inline(always)]
    pub(super) fn blocks(self) -> core::ops::RangeInclusive<usize> {
        (self.start / BLOCK_BITS) as usize..=((self.end - 1) / BLOCK_BITS) as usize
    }

    /// The pages that contain the run, as bits.
    #[inline(always)]
    pub(super) fn pages(self) -> u64 {
        let (first, last) = (*self.blocks().start() as u32, *self.blocks().end() as u32);
        u64::MAX >> (u64::BITS - 1 - (last - first)) << first
    }

    /// The part of the run in a block, relative to the block.
    #[inline(always)]
    pub(super) fn part_in(self, block: usize) -> Run {
        let base = block as u32 * BLOCK_BITS;
        Run { start: self.start.max(base) - base, end: self.end.min(base + BLOCK_BITS) - base }
    }
}

/// The hints of a span, in bits relative to it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Hints {
    /// The longest known free run.
    pub(super) contig: u32,
    pub(super) contig_start: u32,
    /// The scan hint, 0 if there is none.
    pub(super) scan: u32,
    pub(super) scan_start: u32,
    pub(super) first_free: u32,
    /// The free runs at the edges, of a block only.
    pub(super) left: u32,
    pub(super) right: u32,
    /// Bits of the span.
    pub(super) bits: u32,
}

impl Hints {
    /// A span without an object.
    pub(super) const fn free(bits: u32) -> Hints {
        Hints {
            contig: bits,
            contig_start: 0,
            scan: 0,
            scan_start: 0,
            first_free: 0,
            left: bits,
            right: bits,
            bits,
        }
    }

    /// Marks the span as full. In V52 dropped hints keep their starts, here and below.
    #[inline]
    pub(super) fn fill<const HINTS: bool>(&mut self) {
        self.first_free = self.bits;
        (self.left, self.right) = (0, 0);
        self.drop_contig::<HINTS>();
        self.drop_scan::<HINTS>();
    }

    #[inline(always)]
    pub(super) const fn contig_run(&self) -> Run {
        Run::new(self.contig_start, self.contig)
    }

    #[inline(always)]
    const fn scan_run(&self) -> Run {
        Run::new(self.scan_start, self.scan)
    }

    #[inline(always)]
    pub(super) const fn is_free(&self) -> bool {
        self.left == self.bits
    }

    /// The first bit at which a run of `bits` bits may begin.
    #[inline(always)]
    pub(super) const fn resume<const HINTS: bool>(&self, bits: u32) -> u32 {
        let skips =
            HINTS && self.scan != 0 && self.scan_start < self.contig_start && bits > self.scan;
        if skips { self.scan_start + self.scan } else { self.first_free }
    }

    #[inline(always)]
    pub(super) fn drop_scan<const HINTS: bool>(&mut self) {
        self.scan = 0;
        if !HINTS {
            self.scan_start = 0;
        }
    }

    #[inline(always)]
    pub(super) fn drop_contig<const HINTS: bool>(&mut self) {
        self.contig = 0;
        if !HINTS {
            self.contig_start = 0;
        }
    }

    #[inline(always)]
    fn set_contig(&mut self, run: Run) {
        (self.contig, self.contig_start) = (run.bits(), run.start);
    }

    #[inline(always)]
    fn set_scan(&mut self, run: Run) {
        (self.scan, self.scan_start) = (run.bits(), run.start);
    }

    /// Makes the scan hint contig; true when there was one.
    #[inline]
    pub(super) fn promote_scan<const HINTS: bool>(&mut self) -> bool {
        if self.scan == 0 {
            return false;
        }
        self.set_contig(self.scan_run());
        self.drop_scan::<HINTS>();
        true
    }

    /// Updates the hints for a free run, `pcpu_block_update`.
    #[inline]
    pub(super) fn offer<const HINTS: bool>(&mut self, run: Run) {
        let (bits, contig) = (run.bits(), self.contig_run());
        self.first_free = self.first_free.min(run.start);
        if run.start == 0 {
            self.left = bits;
        }
        if run.end == self.bits {
            self.right = bits;
        }
        if bits > contig.bits() {
            self.set_contig(run);
            if HINTS {
                if run.start > contig.start {
                    if contig.bits() > self.scan {
                        self.set_scan(contig);
                    } else if run.start < self.scan_start {
                        self.drop_scan::<HINTS>();
                    }
                } else {
                    self.drop_scan::<HINTS>();
                }
            }
        } else if bits == contig.bits() {
            if run.start == contig.start || bits == 0 {
                return;
            }
            let better =
                run.start == 0 || run.start.trailing_zeros() > contig.start.trailing_zeros();
            if contig.start != 0 && better {
                self.set_contig(run);
                if HINTS && run.start < self.scan_start && contig.bits() > self.scan {
                    self.drop_scan::<HINTS>();
                }
            } else if HINTS && (run.start > self.scan_start || contig.bits() > self.scan) {
                self.set_scan(run);
            }
        } else if HINTS
            && run.start < contig.start
            && (bits > self.scan || (bits == self.scan && run.start > self.scan_start))
        {
            self.set_scan(run);
        }
    }

    /// Updates the hints for an allocated area. True when contig broke and must be recomputed.
    #[inline]
    pub(super) fn take<const HINTS: bool>(&mut self, area: Run) -> bool {
        self.left = self.left.min(area.start);
        self.right = self.right.min(self.bits - area.end.min(self.bits));
        if HINTS && area.overlaps(self.scan_run()) {
            self.drop_scan::<HINTS>();
        }
        area.overlaps(self.contig_run())
    }
}
