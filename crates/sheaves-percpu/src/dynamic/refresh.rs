//! Finding hints anew: of a block from its part of the map, of a chunk from its blocks.
//!
//! Both begin at the scan hint where there is one: it becomes contig, and since nothing before it
//! is longer, only what lies behind it can be.

use crate::dynamic::bits;
use crate::dynamic::counters::Counters;
use crate::dynamic::hints::{BLOCK_BITS, Hints, Run};
use crate::dynamic::policy::{EmptyPages, Policy};

/// Finds the hints of a block anew after contig broke. Its first free bit is right; so are its
/// left and right runs, except where P-d forgets the right one.
pub(super) fn block<P: Policy>(block: &mut Hints, words: &[u64], counters: &mut Counters) {
    counters.block_refreshes += 1;
    let resumes = P::USE_BLOCK_HINT && block.promote_scan::<P>();
    let from = if resumes { block.contig_run().end } else { block.first_free };
    if !resumes {
        block.drop_scan::<P>();
        block.drop_contig::<P>();
    }
    if P::DEFECTS.right_forgotten {
        block.right = 0;
    }
    let mut at = from;
    while at < BLOCK_BITS {
        let start = bits::next_zero(words, at, BLOCK_BITS);
        if start == BLOCK_BITS {
            break;
        }
        at = bits::next_one(words, start, BLOCK_BITS);
        block.offer::<P>(Run { start, end: at });
    }
    counters.words_read += bits::words_between(from, BLOCK_BITS - 1);
}

/// Finds the hints of a chunk anew. `full`: all blocks from the first free bit on. Returns the
/// empty pages that it met; all there are, when it began there.
pub(super) fn chunk<P: Policy>(
    chunk: &mut Hints,
    blocks: &[Hints],
    populated: u64,
    full: bool,
    counters: &mut Counters,
) -> u32 {
    counters.chunk_refreshes += 1;
    let full = full || P::EMPTY_PAGES == EmptyPages::Recount;
    let resumes = !full && P::USE_CHUNK_HINT && chunk.promote_scan::<P>();
    let from = if resumes { chunk.contig_run().end } else { chunk.first_free };
    if !resumes {
        chunk.drop_scan::<P>();
        chunk.drop_contig::<P>();
    }
    let mut walk = Walk { chunk, carried: Run { start: 0, end: 0 }, unknown: false };
    let mut empty = 0;
    let first = (from / BLOCK_BITS) as usize;
    for (index, block) in blocks.iter().enumerate().skip(first) {
        let base = index as u32 * BLOCK_BITS;
        walk.block::<P>(block, base, from.saturating_sub(base));
        if P::EMPTY_PAGES == EmptyPages::Recount && block.is_free() {
            empty += (populated >> index & 1) as u32;
        }
    }
    walk.finish::<P>();
    counters.blocks_refreshed += blocks.len().saturating_sub(first) as u64;
    empty
}

/// A walk over blocks that enters their free runs into a chunk's hints.
struct Walk<'a> {
    chunk: &'a mut Hints,
    /// The run that touches the right edge of the block before; empty when there is none.
    carried: Run,
    /// Before the carried run, in its first block, may be runs that nobody entered.
    unknown: bool,
}

impl Walk<'_> {
    /// One block, whose first bit is `base`; runs that begin before `resume` do not count.
    #[inline]
    fn block<P: Policy>(&mut self, block: &Hints, base: u32, resume: u32) {
        if resume == 0 {
            if self.carried.bits() == 0 {
                self.carried = Run::new(base, 0);
                self.unknown = false;
            }
            self.carried.end += block.left;
            if block.is_free() {
                return;
            }
        }
        self.finish::<P>();
        let contig = block.contig_run();
        if contig.start != 0 && contig.end != BLOCK_BITS && contig.start >= resume {
            self.interior::<P>(block, base, resume);
        }
        let tail = BLOCK_BITS - block.right;
        if block.right > 0 && tail >= resume {
            self.carried = Run { start: base + tail, end: base + BLOCK_BITS };
            self.unknown = contig.start == tail && !block.nothing_before_contig();
            if self.unknown && block.scan > 0 && P::SCAN_HINT && !P::DEFECTS.scan_not_longest {
                let tail = core::mem::replace(&mut self.carried, Run { start: 0, end: 0 });
                self.enter_scan::<P>(block, base, resume);
                (self.carried, self.unknown) = (tail, false);
            }
        }
    }

    /// Enters contig of a block where it touches no edge.
    #[inline]
    fn interior<P: Policy>(&mut self, block: &Hints, base: u32, resume: u32) {
        let exact = P::SCAN_HINT && !P::DEFECTS.scan_not_longest;
        let unknown = block.scan == 0 && !block.nothing_before_contig();
        let scan_first = block.scan_start < block.contig_start;
        if exact && scan_first {
            self.enter_scan::<P>(block, base, resume);
        }
        let contig = block.contig_run();
        self.enter::<P>(Run { start: base + contig.start, end: base + contig.end }, unknown);
        if exact && !scan_first {
            self.enter_scan::<P>(block, base, resume);
        }
    }

    /// Enters the scan hint of a block, so that the chunk's is not shorter than a run before the
    /// chunk's contig.
    #[inline]
    fn enter_scan<P: Policy>(&mut self, block: &Hints, base: u32, resume: u32) {
        if block.scan > 0 && block.scan_start >= resume {
            let scan = block.scan_run();
            self.enter::<P>(Run { start: base + scan.start, end: base + scan.end }, false);
        }
    }

    /// Enters the carried run, which ends here.
    #[inline]
    fn finish<P: Policy>(&mut self) {
        if self.carried.bits() > 0 {
            self.enter::<P>(self.carried, self.unknown);
        }
        self.carried = Run { start: 0, end: 0 };
    }

    /// `unknown`: before the run, in its block, may be runs that nobody entered.
    #[inline]
    fn enter<P: Policy>(&mut self, run: Run, unknown: bool) {
        let contig = self.chunk.contig;
        self.chunk.offer::<P>(run);
        if unknown && !P::DEFECTS.scan_not_longest && self.chunk.contig > contig {
            self.chunk.drop_scan::<P>();
        }
    }
}
