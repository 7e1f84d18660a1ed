//! One chunk: its bitmaps and hints, and how they change when an area is allocated or freed.

use core::ops::Range;

use crate::dynamic::bits;
use crate::dynamic::config::Geometry;
use crate::dynamic::counters::Work;
use crate::dynamic::hints::{BLOCK_BITS, BLOCK_WORDS, Hints, Run};
use crate::dynamic::refresh;

/// The summary of a chunk: the only cache line that a search reads in a chunk that does not fit.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Header {
    /// Hints of the whole chunk; left and right are not maintained.
    pub(super) hints: Hints,
    /// Neighbours in the list, and the list itself.
    pub(super) next: u32,
    pub(super) previous: u32,
    pub(super) list: u32,
    /// Zero bits of the allocation bitmap.
    pub(super) free_bits: u32,
    /// One bit per page: is it populated?
    pub(super) populated: u64,
    /// Populated pages without an object.
    pub(super) empty: u32,
    /// Its pages are being depopulated, or were: its empty pages are not in the allocator's count.
    pub(super) isolated: bool,
}

/// The metadata of one chunk.
#[derive(Debug)]
pub(super) struct Chunk<'a> {
    pub(super) header: &'a mut Header,
    /// The hints of each page.
    pub(super) blocks: &'a mut [Hints],
    /// One bit per grain: is an object there?
    pub(super) allocated: &'a mut [u64],
    /// Ones at the beginning of an object and after its end; stale in free memory, until an object
    /// is placed there.
    pub(super) bounds: &'a mut [u64],
    pub(super) work: &'a Work,
}

impl Chunk<'_> {
    /// Makes it a chunk in no list, without an object and without populated pages.
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
        };
        self.blocks.fill(Hints::free(BLOCK_BITS));
        self.allocated.fill(0);
        self.bounds.fill(0);
    }

    /// Marks the hidden head, on populated pages, as allocated forever; the chunk was just cleared.
    pub(super) fn hide_head(&mut self, geometry: &Geometry) {
        let head = Run { start: 0, end: geometry.head_bits };
        if head.bits() > 0 {
            self.alloc(head);
            self.header.populated = mask(pages_of(head));
            // It is not an object, so it cannot be freed.
            bits::clear_range(self.bounds, head.start, head.end + 1);
        }
    }

    /// Makes a free area an object. Returns the change of the number of empty pages.
    pub(super) fn alloc(&mut self, area: Run) -> i64 {
        let empty = self.header.empty;
        bits::set_range(self.allocated, area.start, area.end);
        bits::mark_ends(self.bounds, area.start, area.end);
        self.header.free_bits -= area.bits();
        let (first, last) = (area.first_block(), area.last_block());
        let filled = if first == last {
            u64::from(self.alloc_in_block(first, area)) << first
        } else {
            self.alloc_in_blocks(first, last, area)
        };
        self.header.empty -= (filled & self.header.populated).count_ones();
        self.alloc_in_chunk(area);
        i64::from(self.header.empty) - i64::from(empty)
    }

    /// [`Chunk::alloc`] for several blocks; returns those that were entirely free.
    #[inline(never)]
    fn alloc_in_blocks(&mut self, first: usize, last: usize, area: Run) -> u64 {
        let end = self.blocks.len().min(last + 1);
        (first..end)
            .fold(0, |filled, block| filled | u64::from(self.alloc_in_block(block, area)) << block)
    }

    /// [`Chunk::alloc`] for one block; true when the block was entirely free.
    #[inline]
    fn alloc_in_block(&mut self, index: usize, area: Run) -> bool {
        let part = part_in_block(area, index);
        let words = self.allocated.get(index * BLOCK_WORDS..(index + 1) * BLOCK_WORDS);
        let (Some(block), Some(words)) = (self.blocks.get_mut(index), words) else { return false };
        let was_free = block.is_free();
        if part.bits() == BLOCK_BITS {
            *block = Hints::full(BLOCK_BITS);
            return was_free;
        }
        let alone = block.nothing_before_contig();
        if part.start == block.first_free {
            block.first_free = bits::next_zero(words, part.end, BLOCK_BITS);
            self.work.words_read(part.end, block.first_free);
        }
        if block.take(part, alone) {
            refresh::block(block, words, self.work);
        }
        was_free
    }

    #[inline]
    fn alloc_in_chunk(&mut self, area: Run) {
        let hints = &mut self.header.hints;
        let alone = hints.nothing_before_contig();
        if area.start == hints.first_free {
            // The last block has already found its own first free bit.
            let last = area.last_block();
            let base = last as u32 * BLOCK_BITS;
            hints.first_free = match self.blocks.get(last) {
                Some(block) if block.first_free < BLOCK_BITS => base + block.first_free,
                _ => {
                    let from = base + BLOCK_BITS;
                    let found = bits::next_zero(self.allocated, from, hints.bits);
                    self.work.words_read(from, found);
                    found
                }
            };
        }
        if hints.take(area, alone) {
            refresh::chunk(hints, self.blocks, self.work);
        }
    }

    /// Makes an object free memory. Returns the change of the number of empty pages.
    pub(super) fn free(&mut self, area: Run) -> i64 {
        let empty = self.header.empty;
        bits::clear_range(self.allocated, area.start, area.end);
        self.header.free_bits += area.bits();
        let (first, last) = (area.first_block(), area.last_block());
        let run =
            Run { start: self.run_start(first, area.start), end: self.run_end(last, area.end) };
        let emptied = if first == last {
            u64::from(self.free_in_block(first, run)) << first
        } else {
            (first..=last).fold(0, |emptied, block| {
                emptied | u64::from(self.free_in_block(block, run)) << block
            })
        };
        self.header.empty += (emptied & self.header.populated).count_ones();
        let run = self.coalesce(run);
        self.header.hints.offer(run);
        i64::from(self.header.empty) - i64::from(empty)
    }

    /// [`Chunk::free`] for one block; true when it is entirely free now.
    #[inline(always)]
    fn free_in_block(&mut self, index: usize, run: Run) -> bool {
        let part = part_in_block(run, index);
        if let Some(block) = self.blocks.get_mut(index) {
            block.offer(part);
        }
        part.bits() == BLOCK_BITS
    }

    /// Start of the free run in a block that ends at the start of a freed area.
    #[inline]
    fn run_start(&self, block: usize, start: u32) -> u32 {
        let base = block as u32 * BLOCK_BITS;
        match self.blocks.get(block) {
            Some(hints) if base + hints.contig.end == start => base + hints.contig.start,
            _ => {
                let found = bits::run_start(self.allocated, start, base);
                self.work.words_read(found, start);
                found
            }
        }
    }

    /// End of the free run in a block that begins at the end of a freed area.
    #[inline]
    fn run_end(&self, block: usize, end: u32) -> u32 {
        let base = block as u32 * BLOCK_BITS;
        match self.blocks.get(block) {
            Some(hints) if base + hints.contig.start == end => base + hints.contig.end,
            _ => {
                let found = bits::next_one(self.allocated, end, base + BLOCK_BITS);
                self.work.words_read(end, found);
                found
            }
        }
    }

    /// Extends a run that is complete within its blocks to the complete run in the chunk.
    #[inline]
    fn coalesce(&self, mut run: Run) -> Run {
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
    pub(super) fn object_at(&self, bit: u32) -> Option<Run> {
        if !bits::is_one(self.allocated, bit) || !bits::is_one(self.bounds, bit) {
            return None;
        }
        let end = bits::next_one(self.bounds, bit + 1, self.header.hints.bits + 1);
        self.work.words_read(bit, end);
        Some(Run { start: bit, end: end.min(self.header.hints.bits) })
    }

    /// True when an object began or ended at a bit where none is now.
    pub(super) fn was_bound(&self, bit: u32) -> bool {
        !bits::is_one(self.allocated, bit) && bits::is_one(self.bounds, bit)
    }

    /// Pages without an object, one bit each.
    pub(super) fn free_pages(&self) -> u64 {
        let free = self.blocks.iter().enumerate().filter(|(_, block)| block.is_free());
        free.fold(0, |pages, (page, _)| pages | 1 << page)
    }
}

/// The part of a run that is in a block, relative to the block.
#[inline(always)]
fn part_in_block(run: Run, block: usize) -> Run {
    let base = block as u32 * BLOCK_BITS;
    Run { start: run.start.max(base) - base, end: run.end.min(base + BLOCK_BITS) - base }
}

/// The pages of an area.
#[inline(always)]
pub(super) fn pages_of(area: Run) -> Range<u32> {
    area.start / BLOCK_BITS..area.end.div_ceil(BLOCK_BITS)
}

/// Pages as bits; at least one page and at most 64.
#[inline(always)]
pub(super) fn mask(pages: Range<u32>) -> u64 {
    (u64::MAX >> (u64::BITS - (pages.end - pages.start))) << pages.start
}

/// The maximal ranges of consecutive pages in a bit set.
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

const _: () = assert!(size_of::<Header>() == 64);
