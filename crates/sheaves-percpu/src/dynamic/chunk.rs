//! One chunk: its maps and hints, and what taking and giving back an area changes in them.

use core::ops::Range;

use crate::dynamic::bits;
use crate::dynamic::config::Geometry;
use crate::dynamic::counters::Counters;
use crate::dynamic::hints::{BLOCK_BITS, BLOCK_WORDS, Hints, Run};
use crate::dynamic::policy::{EmptyPages, Policy};
use crate::dynamic::refresh;

/// What is known of a chunk as a whole. The first cache line is all that a search looks at in a
/// chunk that does not fit.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Header {
    /// Of the whole chunk; its left and right runs are not kept.
    pub(super) hints: Hints,
    /// Neighbours in the list, and which list it is.
    pub(super) next: u32,
    pub(super) previous: u32,
    pub(super) list: u32,
    /// Zero bits of the allocation map.
    pub(super) free_bits: u32,
    /// One bit for each page: is it populated?
    pub(super) populated: u64,
    /// Populated pages without an object.
    pub(super) empty: u32,
    /// Its pages are being given back or were: its empty pages do not count globally.
    pub(super) isolated: bool,
    /// Objects in the chunk now.
    pub(super) objects: u32,
    /// Bits of the largest object that was ever in it.
    pub(super) object_bits_max: u32,
}

/// The metadata of one chunk.
#[derive(Debug)]
pub(super) struct Chunk<'a> {
    pub(super) header: &'a mut Header,
    /// One for each page.
    pub(super) blocks: &'a mut [Hints],
    /// One bit for each grain: does an object lie there?
    pub(super) allocated: &'a mut [u64],
    /// One where an object begins and after its end; stale in free memory, until an object comes
    /// to lie there.
    pub(super) bounds: &'a mut [u64],
}

impl Chunk<'_> {
    /// Makes it a chunk without an object and without populated pages, in no list.
    pub(super) fn clear(&mut self) {
        let pages = self.blocks.len() as u32;
        let bits = pages * BLOCK_BITS;
        *self.header = Header {
            hints: Hints::free(bits),
            next: 0,
            previous: 0,
            list: 0,
            free_bits: bits,
            populated: 0,
            empty: 0,
            isolated: false,
            objects: 0,
            object_bits_max: 0,
        };
        self.blocks.fill(Hints::free(BLOCK_BITS));
        self.allocated.fill(0);
        self.bounds.fill(0);
    }

    /// Marks the hidden head as taken for good, on populated pages; of a chunk just cleared.
    pub(super) fn hide_head<P: Policy>(&mut self, geometry: &Geometry, counters: &mut Counters) {
        let head = Run { start: 0, end: geometry.head_bits };
        if head.bits() > 0 {
            self.take::<P>(head, counters);
            self.header.populated = mask(pages_of(head));
            // It is no object: nobody can free it.
            bits::clear_range(self.bounds, head.start, head.end + 1);
            self.header.objects = 0;
            self.header.object_bits_max = 0;
        }
    }

    /// The words of a block in the allocation map.
    #[inline(always)]
    pub(super) fn words(&self, block: usize) -> &[u64] {
        self.allocated.get(block * BLOCK_WORDS..(block + 1) * BLOCK_WORDS).unwrap_or(&[])
    }

    /// Turns a free area into an object. Returns how the number of empty pages changed.
    pub(super) fn take<P: Policy>(&mut self, area: Run, counters: &mut Counters) -> i32 {
        let empty = self.header.empty;
        bits::set_range(self.allocated, area.start, area.end);
        bits::mark_ends(self.bounds, area.start, area.end);
        self.header.free_bits -= area.bits();
        self.header.objects += 1;
        self.header.object_bits_max = self.header.object_bits_max.max(area.bits());
        let (first, last) = (area.first_block(), area.last_block());
        let filled = if first == last {
            u64::from(self.take_in_block::<P>(first, area, counters)) << first
        } else {
            self.take_in_blocks::<P>(first, last, area, counters)
        };
        if P::EMPTY_PAGES == EmptyPages::Delta {
            self.header.empty -= (filled & self.header.populated).count_ones();
        }
        self.take_in_chunk::<P>(area, counters);
        self.header.empty as i32 - empty as i32
    }

    /// The part of [`Chunk::take`] for several blocks; returns those that were wholly free.
    #[inline(never)]
    fn take_in_blocks<P: Policy>(
        &mut self,
        first: usize,
        last: usize,
        area: Run,
        counters: &mut Counters,
    ) -> u64 {
        let end = self.blocks.len().min(last + 1);
        (first..end).fold(0, |filled, block| {
            filled | u64::from(self.take_in_block::<P>(block, area, counters)) << block
        })
    }

    /// The part of [`Chunk::take`] for one block; true when the block was wholly free.
    #[inline]
    fn take_in_block<P: Policy>(
        &mut self,
        index: usize,
        area: Run,
        counters: &mut Counters,
    ) -> bool {
        let part = part_in_block(area, index);
        let words = self.allocated.get(index * BLOCK_WORDS..(index + 1) * BLOCK_WORDS);
        let (Some(block), Some(words)) = (self.blocks.get_mut(index), words) else { return false };
        let was_free = block.is_free();
        if part.bits() == BLOCK_BITS {
            block.fill::<P>();
            return was_free;
        }
        let alone = block.nothing_before_contig();
        if part.start == block.first_free {
            block.first_free = bits::next_zero(words, part.end, BLOCK_BITS);
            counters.words_read += bits::words_between(part.end, block.first_free);
        }
        if block.take::<P>(part, alone) {
            refresh::block::<P>(block, words, counters);
        }
        was_free
    }

    #[inline]
    fn take_in_chunk<P: Policy>(&mut self, area: Run, counters: &mut Counters) {
        let hints = &mut self.header.hints;
        let alone = hints.nothing_before_contig();
        if area.start == hints.first_free {
            // The last block has found its own already.
            let last = area.last_block();
            let base = last as u32 * BLOCK_BITS;
            hints.first_free = match self.blocks.get(last) {
                Some(block) if block.first_free < BLOCK_BITS => base + block.first_free,
                _ => {
                    let from = base + BLOCK_BITS;
                    let found = bits::next_zero(self.allocated, from, hints.bits);
                    counters.words_read += bits::words_between(from, found);
                    found
                }
            };
        }
        let broke = area.overlaps(hints.contig_run());
        let lost = hints.take::<P>(area, alone);
        // A recount has to see every block, whether or not contig has to be found.
        if lost || (P::EMPTY_PAGES == EmptyPages::Recount && broke) {
            self.refresh::<P>(false, counters);
        }
    }

    /// Finds the chunk's hints anew from those of its blocks. `full`: without trusting the scan
    /// hint.
    pub(super) fn refresh<P: Policy>(&mut self, full: bool, counters: &mut Counters) {
        let Header { hints, populated, empty, .. } = &mut *self.header;
        let empty_now = refresh::chunk::<P>(hints, self.blocks, *populated, full, counters);
        if P::EMPTY_PAGES == EmptyPages::Recount {
            *empty = empty_now;
        }
    }

    /// Turns an object into free memory. Returns how the number of empty pages changed.
    pub(super) fn give<P: Policy>(&mut self, area: Run, counters: &mut Counters) -> i32 {
        let empty = self.header.empty;
        bits::clear_range(self.allocated, area.start, area.end);
        self.header.free_bits += area.bits();
        self.header.objects -= 1;
        let (first, last) = (area.first_block(), area.last_block());
        let run = Run {
            start: self.run_start(first, area.start, counters),
            end: self.run_end(last, area.end, counters),
        };
        let emptied = if first == last {
            u64::from(self.give_to_block::<P>(first, run)) << first
        } else {
            (first..=last).fold(0, |emptied, block| {
                emptied | u64::from(self.give_to_block::<P>(block, run)) << block
            })
        };
        if P::EMPTY_PAGES == EmptyPages::Delta {
            self.header.empty += (emptied & self.header.populated).count_ones();
        }
        self.give_to_chunk::<P>(area, run, emptied != 0, counters);
        self.header.empty as i32 - empty as i32
    }

    /// The part of [`Chunk::give`] for one block; true when it is wholly free now.
    #[inline(always)]
    fn give_to_block<P: Policy>(&mut self, index: usize, run: Run) -> bool {
        let part = part_in_block(run, index);
        if let Some(block) = self.blocks.get_mut(index) {
            block.offer::<P>(part);
        }
        part.bits() == BLOCK_BITS
    }

    /// Where the free run in a block begins that ends with a freed area's start.
    #[inline]
    fn run_start(&self, block: usize, start: u32, counters: &mut Counters) -> u32 {
        let base = block as u32 * BLOCK_BITS;
        match self.blocks.get(block) {
            Some(hints) if base + hints.contig_run().end == start => base + hints.contig_start,
            _ => {
                let found = bits::run_start(self.allocated, start, base);
                counters.words_read += bits::words_between(found, start);
                found
            }
        }
    }

    /// Where the free run in a block ends that begins with a freed area's end.
    #[inline]
    fn run_end(&self, block: usize, end: u32, counters: &mut Counters) -> u32 {
        let base = block as u32 * BLOCK_BITS;
        match self.blocks.get(block) {
            Some(hints) if base + hints.contig_start == end => base + hints.contig_run().end,
            _ => {
                let found = bits::next_one(self.allocated, end, base + BLOCK_BITS);
                counters.words_read += bits::words_between(end, found);
                found
            }
        }
    }

    /// `run`: the freed area and what is free beside it in its first and last block.
    #[inline]
    fn give_to_chunk<P: Policy>(
        &mut self,
        area: Run,
        run: Run,
        emptied: bool,
        counters: &mut Counters,
    ) {
        let crosses = area.first_block() != area.last_block();
        let recounts = P::EMPTY_PAGES == EmptyPages::Recount && emptied;
        if recounts || (!P::STITCH_FREED && (crosses || emptied)) {
            self.header.hints.first_free = self.header.hints.first_free.min(area.start);
            self.refresh::<P>(true, counters);
            return;
        }
        let mut run = if P::STITCH_FREED { self.stitch(run) } else { run };
        if !crosses {
            let block = area.first_block();
            if P::DEFECTS.end_in_block {
                run.end -= block as u32 * BLOCK_BITS;
            }
            if !P::EXACT_FREED_LENGTH {
                run = Run::new(run.start, self.blocks[block].contig);
            }
        }
        self.header.hints.offer::<P>(run);
    }

    /// A run that is whole in its blocks, made whole in the chunk.
    #[inline]
    fn stitch(&self, mut run: Run) -> Run {
        while run.start.is_multiple_of(BLOCK_BITS) && run.start > 0 {
            let right = self.blocks[(run.start / BLOCK_BITS) as usize - 1].right;
            if right == 0 {
                break;
            }
            run.start -= right;
        }
        while run.end.is_multiple_of(BLOCK_BITS) && run.end < self.header.hints.bits {
            let left = self.blocks[(run.end / BLOCK_BITS) as usize].left;
            if left == 0 {
                break;
            }
            run.end += left;
        }
        run
    }

    /// The object that begins at a bit; `None` when none does.
    #[inline]
    pub(super) fn object_at(&self, bit: u32, counters: &mut Counters) -> Option<Run> {
        if !bits::is_one(self.allocated, bit) || !bits::is_one(self.bounds, bit) {
            return None;
        }
        let end = bits::next_one(self.bounds, bit + 1, self.header.hints.bits + 1);
        counters.words_read += bits::words_between(bit, end);
        Some(Run { start: bit, end: end.min(self.header.hints.bits) })
    }

    /// Whether an object began or ended at a bit where none lies now.
    pub(super) fn was_bound(&self, bit: u32) -> bool {
        !bits::is_one(self.allocated, bit) && bits::is_one(self.bounds, bit)
    }

    /// Whether all pages of an area are populated.
    #[inline]
    pub(super) fn is_populated(&self, area: Run) -> bool {
        mask(pages_of(area)) & !self.header.populated == 0
    }

    /// Pages without an object, as bits.
    pub(super) fn free_pages(&self) -> u64 {
        let free = self.blocks.iter().enumerate().filter(|(_, block)| block.is_free());
        free.fold(0, |pages, (page, _)| pages | 1 << page)
    }
}

/// The part of a run that lies in a block, relative to the block.
#[inline(always)]
fn part_in_block(run: Run, block: usize) -> Run {
    let base = block as u32 * BLOCK_BITS;
    Run { start: run.start.max(base) - base, end: run.end.min(base + BLOCK_BITS) - base }
}

/// The pages on which an area lies.
#[inline(always)]
pub(super) fn pages_of(area: Run) -> Range<u32> {
    area.start / BLOCK_BITS..area.end.div_ceil(BLOCK_BITS)
}

/// Pages as bits; at least one and at most 64 of them.
#[inline(always)]
pub(super) fn mask(pages: Range<u32>) -> u64 {
    (u64::MAX >> (u64::BITS - (pages.end - pages.start))) << pages.start
}

/// The maximal ranges of consecutive pages among bits.
pub(super) fn ranges(mut pages: u64) -> impl Iterator<Item = Range<u32>> {
    core::iter::from_fn(move || {
        if pages == 0 {
            return None;
        }
        let start = pages.trailing_zeros();
        let end = start + (pages >> start).trailing_ones();
        pages &= !mask(start..end);
        Some(start..end)
    })
}

const _: () = assert!(size_of::<Header>() == 128);
