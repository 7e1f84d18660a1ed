//! Recomputes hints: of a block from its part of the bitmap, of a chunk from its blocks.
//!
//! Both begin at the scan hint if it is set: it becomes contig. Nothing before it is longer, so
//! only later runs can be.

use crate::dynamic::bits;
use crate::dynamic::counters::Work;
use crate::dynamic::hints::{BLOCK_BITS, Hints, Run};

/// Recomputes the hints of a block after contig was broken. Its first free bit and its left and
/// right runs are correct.
pub(super) fn block(block: &mut Hints, words: &[u64], work: &Work) {
    work.count(|work| work.block_refreshes += 1);
    let from = block.begin_refresh();
    bits::zero_runs(words, from, BLOCK_BITS).for_each(|run| block.offer(run));
    work.words_read(from, BLOCK_BITS - 1);
}

/// Recomputes the hints of a chunk.
pub(super) fn chunk(chunk: &mut Hints, blocks: &[Hints], work: &Work) {
    let from = chunk.begin_refresh();
    let mut walk = Walk { chunk, carried: Run::EMPTY, unknown: false };
    let first = (from / BLOCK_BITS) as usize;
    for (index, block) in blocks.iter().enumerate().skip(first) {
        let base = index as u32 * BLOCK_BITS;
        walk.block(block, base, from.saturating_sub(base));
    }
    walk.finish();
    work.count(|work| work.blocks_refreshed += blocks.len().saturating_sub(first) as u64);
}

/// A walk over blocks that enters their free runs into a chunk's hints.
struct Walk<'a> {
    chunk: &'a mut Hints,
    /// The run at the right edge of the previous block; empty when there is none.
    carried: Run,
    /// Runs that were not entered may exist before the carried run, in its first block.
    unknown: bool,
}

impl Walk<'_> {
    /// Visits one block, whose first bit is `base`; runs that begin before `resume` do not count.
    #[inline]
    fn block(&mut self, block: &Hints, base: u32, resume: u32) {
        if resume == 0 {
            if self.carried.is_empty() {
                self.carried = Run::new(base, 0);
                self.unknown = false;
            }
            self.carried.end += block.left;
            if block.is_free() {
                return;
            }
        }
        self.finish();
        let contig = block.contig;
        if contig.start != 0 && contig.end != BLOCK_BITS && contig.start >= resume {
            self.interior(block, base, resume);
        }
        let tail = BLOCK_BITS - block.right;
        if block.right > 0 && tail >= resume {
            self.carried = Run { start: base + tail, end: base + BLOCK_BITS };
            self.unknown = contig.start == tail && !block.nothing_before_contig();
            if self.unknown && !block.scan.is_empty() {
                let tail = core::mem::replace(&mut self.carried, Run::EMPTY);
                self.enter_scan(block, base, resume);
                (self.carried, self.unknown) = (tail, false);
            }
        }
    }

    /// Enters contig of a block where it touches no edge.
    #[inline]
    fn interior(&mut self, block: &Hints, base: u32, resume: u32) {
        let unknown = block.scan.is_empty() && !block.nothing_before_contig();
        let scan_first = block.scan.start < block.contig.start;
        if scan_first {
            self.enter_scan(block, base, resume);
        }
        self.enter(block.contig.after(base), unknown);
        if !scan_first {
            self.enter_scan(block, base, resume);
        }
    }

    /// Enters the scan hint of a block, so that the chunk's is not shorter than a run before the
    /// chunk's contig.
    #[inline]
    fn enter_scan(&mut self, block: &Hints, base: u32, resume: u32) {
        if !block.scan.is_empty() && block.scan.start >= resume {
            self.enter(block.scan.after(base), false);
        }
    }

    /// Enters the carried run, which ends here.
    #[inline]
    fn finish(&mut self) {
        if !self.carried.is_empty() {
            self.enter(self.carried, self.unknown);
        }
        self.carried = Run::EMPTY;
    }

    /// `unknown`: runs that were not entered may exist before the run, in its block.
    #[inline]
    fn enter(&mut self, run: Run, unknown: bool) {
        let contig = self.chunk.contig.bits();
        self.chunk.offer(run);
        if unknown && self.chunk.contig.bits() > contig {
            self.chunk.scan = Run::EMPTY;
        }
    }
}
