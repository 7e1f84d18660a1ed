//! Finding room in a chunk: a test of its hints, a walk over those of its blocks, and a search of
//! the map from where the walk ended.

use crate::dynamic::bits;
use crate::dynamic::chunk::{Chunk, mask, pages_of};
use crate::dynamic::config::{Growth, Request};
use crate::dynamic::counters::Counters;
use crate::dynamic::hints::{BLOCK_BITS, Hints, Run};
use crate::dynamic::policy::Policy;

/// Where a walk found room.
struct Found {
    /// The search of the map may begin here, before the room, where smaller holes are.
    from: u32,
    /// The room.
    room: Run,
}

/// Whether a request takes its area from the longest run without a look at the others.
#[inline(always)]
pub(super) fn takes_contig<P: Policy>(hints: &Hints, request: Request) -> bool {
    P::TAKE_CONTIG && hints.only_contig_fits(request.bits)
}

impl Chunk<'_> {
    /// A free area for the request, in a chunk whose longest run fits at `area`.
    #[inline]
    pub(super) fn find<P: Policy>(
        &mut self,
        request: Request,
        area: Run,
        growth: Growth,
        counters: &mut Counters,
    ) -> Option<Run> {
        let hints = &self.header.hints;
        if takes_contig::<P>(hints, request) && self.may_take(area, growth) {
            return Some(area);
        }
        let from = hints.resume(request.bits, P::USE_CHUNK_HINT);
        let from = self.walk_populated::<P>(from, request, growth, counters)?;
        let area = if P::WORD_SEARCH && request.bits <= bits::ZERO_RUN_MAX {
            self.search_words(from, request, counters)
        } else {
            self.search::<P>(from, request, counters)
        };
        area.filter(|area| self.may_take(*area, growth))
    }

    #[inline(always)]
    fn may_take(&self, area: Run, growth: Growth) -> bool {
        growth == Growth::Allowed || self.is_populated(area)
    }

    /// Walks until it finds room, for a request that must not grow: on populated pages.
    #[inline]
    fn walk_populated<P: Policy>(
        &self,
        mut from: u32,
        request: Request,
        growth: Growth,
        counters: &mut Counters,
    ) -> Option<u32> {
        loop {
            let found = self.walk::<P>(from, request, counters)?;
            let missing = mask(pages_of(found.room)) & !self.header.populated;
            if growth == Growth::Allowed || missing == 0 {
                return Some(found.from);
            }
            let after = u64::BITS - missing.leading_zeros();
            let page = self.header.populated.checked_shr(after)?.trailing_zeros() + after;
            if page as usize >= self.blocks.len() {
                return None;
            }
            from = page * BLOCK_BITS;
        }
    }

    /// Room in the blocks from a bit on, by their hints.
    #[inline]
    fn walk<P: Policy>(
        &self,
        from: u32,
        request: Request,
        counters: &mut Counters,
    ) -> Option<Found> {
        // The free run that touches the end of the block before, from its first aligned bit on.
        let mut run = Run { start: 0, end: 0 };
        let first = (from / BLOCK_BITS) as usize;
        for (index, block) in self.blocks.iter().enumerate().skip(first) {
            counters.blocks_searched += 1;
            let base = index as u32 * BLOCK_BITS;
            let resume = from.saturating_sub(base);
            if resume == 0 {
                if run.bits() == 0 {
                    run = Run::new(base, 0);
                }
                run.end += block.left;
                if run.bits() >= request.bits {
                    return Some(Found {
                        from: run.start,
                        room: Run::new(run.start, request.bits),
                    });
                }
                if block.is_free() {
                    continue;
                }
            }
            let place = request.place_in(block.contig_run());
            if let Some(place) = place.filter(|_| block.contig_start >= resume) {
                let from = from_in_block::<P>(block, request.bits).max(resume);
                let room = Run::new(base + place.start, request.bits);
                return Some(Found { from: base + from, room });
            }
            let end = base + BLOCK_BITS;
            let tail = BLOCK_BITS - block.right;
            let usable = block.right > 0 && tail >= resume;
            let start = if usable { request.align_up(base + tail).min(end) } else { end };
            run = Run { start, end };
        }
        None
    }

    /// The first free area from a bit on, in the map.
    #[inline]
    pub(super) fn search<P: Policy>(
        &mut self,
        from: u32,
        request: Request,
        counters: &mut Counters,
    ) -> Option<Run> {
        let bits = self.header.hints.bits;
        // Without hints the search may have to go on to the last block.
        let window = if P::SCAN_HINT { from + request.bits + BLOCK_BITS } else { bits };
        let end = if P::CLAMP_WINDOW { window.min(bits) } else { window };
        let mut skipped = Run { start: 0, end: 0 };
        let mut at = from;
        let found = loop {
            // What lies beyond the map looks free; only P-j gets there.
            at = bits::next_zero(self.allocated, at, end.min(bits)).max(at);
            let area = Run::new(request.align_up(at), request.bits);
            if area.end > end {
                counters.words_read += bits::words_between(from, at);
                return None;
            }
            let blocked = bits::next_one(self.allocated, area.start, area.end);
            if blocked == area.end {
                break area;
            }
            if P::SKIPPED_AREA {
                note_skipped(&mut skipped, Run { start: area.start, end: blocked });
            }
            at = blocked + 1;
        };
        counters.words_read += bits::words_between(from, found.end);
        if P::SKIPPED_AREA && skipped.bits() > 0 {
            self.enter_skipped::<P>(skipped, counters);
        }
        Some(found)
    }

    /// The first free area from a bit on, in the map, of at most [`bits::ZERO_RUN_MAX`] bits.
    #[inline]
    fn search_words(&self, from: u32, request: Request, counters: &mut Counters) -> Option<Run> {
        let end = self.header.hints.bits;
        let (count, align_mask) = (request.bits, request.align_mask);
        let place = bits::zero_run(self.allocated, from, end, count, align_mask);
        let area = Run::new(place?, count);
        counters.words_read += bits::words_between(from, area.end);
        Some(area)
    }

    /// Offers the longest run that a search skipped to the block in which it lies.
    #[inline]
    fn enter_skipped<P: Policy>(&mut self, skipped: Run, counters: &mut Counters) {
        let block = skipped.first_block();
        if block != skipped.last_block() {
            return;
        }
        let base = block as u32 * BLOCK_BITS;
        // What alignment cut off its head belongs to it.
        let start = bits::run_start(self.allocated, skipped.start, base);
        counters.words_read += bits::words_between(start, skipped.start);
        if let Some(block) = self.blocks.get_mut(block) {
            block.offer::<P>(Run { start: start - base, end: skipped.end - base });
        }
    }

    /// A free area anywhere in the chunk, on populated pages if need be, without any hint.
    pub(super) fn find_exhaustively(
        &self,
        request: Request,
        growth: Growth,
        counters: &mut Counters,
    ) -> Option<Run> {
        let end = self.header.hints.bits;
        let mut at = self.header.hints.first_free;
        loop {
            let from = at;
            let start = bits::next_zero(self.allocated, at, end);
            at = bits::next_one(self.allocated, start, end);
            counters.words_read += bits::words_between(from, at);
            let mut run = Run { start, end: at };
            if run.bits() == 0 {
                return None;
            }
            while let Some(area) = request.place_in(run) {
                if self.may_take(area, growth) {
                    return Some(area);
                }
                let missing = mask(pages_of(area)) & !self.header.populated;
                run.start = (u64::BITS - missing.leading_zeros()) * BLOCK_BITS;
            }
        }
    }
}

/// Where the search of a block begins that has room.
#[inline(always)]
fn from_in_block<P: Policy>(block: &Hints, bits: u32) -> u32 {
    if P::TAKE_CONTIG && block.only_contig_fits(bits) {
        block.contig_start
    } else {
        block.resume(bits, P::USE_BLOCK_HINT)
    }
}

/// Keeps the longer of two runs, of equal ones the better aligned.
#[inline(always)]
fn note_skipped(longest: &mut Run, run: Run) {
    let better = || {
        longest.start != 0
            && (run.start == 0 || run.start.trailing_zeros() > longest.start.trailing_zeros())
    };
    if run.bits() > longest.bits() || (run.bits() == longest.bits() && better()) {
        *longest = run;
    }
}
