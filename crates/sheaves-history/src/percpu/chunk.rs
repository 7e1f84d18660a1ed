//! A chunk: its maps and hints, the search for room, and the updates when an area is allocated or
//! freed.

use sheaves_percpu::internal::dynamic::bits;

use super::hints::{BLOCK_BITS, Hints, Run};
use super::request::{GRAIN_BYTES, PAGE_BYTES, Request, Work, words_between};

const BLOCK_WORDS: usize = (BLOCK_BITS / u64::BITS) as usize;

/// A chunk and its metadata, `pcpu_chunk`. A search that finds no fit reads the first line only.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Chunk {
    /// Of the whole chunk; its left and right runs are not kept.
    pub(super) hints: Hints,
    /// Neighbours in the list, and the number of the list.
    pub(super) next: u32,
    pub(super) previous: u32,
    pub(super) list: u32,
    pub(super) free_bits: u32,
    /// One bit for each page with memory.
    pub(super) populated: u64,
    /// Populated pages without an object.
    pub(super) empty: u32,
    /// One for each page.
    pub(super) blocks: Box<[Hints]>,
    /// Allocation map: one bit for each grain of an object. Boundary map: one bit where an object
    /// begins, and after its end.
    allocated: Box<[u64]>,
    bounds: Box<[u64]>,
}

impl Chunk {
    pub(super) fn new(unit_bytes: usize) -> Box<Chunk> {
        let pages = unit_bytes / PAGE_BYTES;
        let bits = (unit_bytes / GRAIN_BYTES) as u32;
        Box::new(Chunk {
            hints: Hints::free(bits),
            next: 0,
            previous: 0,
            list: 0,
            free_bits: bits,
            populated: 0,
            empty: 0,
            blocks: vec![Hints::free(BLOCK_BITS); pages].into(),
            allocated: vec![0; pages * BLOCK_WORDS].into(),
            bounds: vec![0; pages * BLOCK_WORDS + 1].into(),
        })
    }

    /// Bytes of the metadata of a chunk.
    pub(super) fn bytes(unit_bytes: usize) -> usize {
        let pages = unit_bytes / PAGE_BYTES;
        size_of::<Chunk>() + pages * size_of::<Hints>() + (2 * pages * BLOCK_WORDS + 1) * 8
    }

    fn words(&self, block: usize) -> &[u64] {
        &self.allocated[block * BLOCK_WORDS..(block + 1) * BLOCK_WORDS]
    }

    /// Finds a free area: by the hints of the blocks, then in the map from the position that they
    /// give.
    #[inline]
    pub(super) fn find<const HINTS: bool>(
        &mut self,
        request: Request,
        work: &mut Work,
    ) -> Option<Run> {
        let from = self.walk::<HINTS>(request)?;
        self.search::<HINTS>(from, request, work)
    }

    /// The position in the map from which a search finds room.
    #[inline]
    fn walk<const HINTS: bool>(&self, request: Request) -> Option<u32> {
        let from = self.hints.resume::<HINTS>(request.bits);
        // The free run that ends at the end of the previous block.
        let mut run = Run::EMPTY;
        let first = (from / BLOCK_BITS) as usize;
        for (index, block) in self.blocks.iter().enumerate().skip(first) {
            let base = index as u32 * BLOCK_BITS;
            let resume = from.saturating_sub(base);
            if resume == 0 {
                if run.bits() == 0 {
                    run = Run::new(base, 0);
                }
                run.end += block.left;
                if run.bits() >= request.bits {
                    return Some(run.start);
                }
                if block.is_free() {
                    continue;
                }
            }
            if request.fits(block.contig_run()) && block.contig_start >= resume {
                return Some(base + block.resume::<HINTS>(request.bits).max(resume));
            }
            let end = base + BLOCK_BITS;
            let tail = BLOCK_BITS - block.right;
            let usable = block.right > 0 && tail >= resume;
            let start = if usable { request.align_up(base + tail).min(end) } else { end };
            run = Run { start, end };
        }
        None
    }

    /// The first free area in the map at or after a bit.
    #[inline]
    fn search<const HINTS: bool>(
        &mut self,
        from: u32,
        request: Request,
        work: &mut Work,
    ) -> Option<Run> {
        let bits = self.hints.bits;
        // Without hints the search may have to continue to the last block.
        let end = if HINTS { (from + request.bits + BLOCK_BITS).min(bits) } else { bits };
        let mut skipped = Run::EMPTY;
        let mut at = from;
        let found = loop {
            at = bits::next_zero(&self.allocated, at, end).max(at);
            let area = Run::new(request.align_up(at), request.bits);
            if area.end > end {
                work.words_read += words_between(from, at);
                return None;
            }
            let blocked = bits::next_one(&self.allocated, area.start, area.end);
            if blocked == area.end {
                break area;
            }
            if HINTS {
                note_skipped(&mut skipped, Run { start: area.start, end: blocked });
            }
            at = blocked + 1;
        };
        work.words_read += words_between(from, found.end);
        if HINTS && skipped.bits() > 0 {
            self.enter_skipped(skipped, work);
        }
        Some(found)
    }

    /// Offers the longest run that a search skipped to the block that contains it.
    #[inline]
    fn enter_skipped(&mut self, skipped: Run, work: &mut Work) {
        let (block, last) = skipped.blocks().into_inner();
        if block == last {
            let base = block as u32 * BLOCK_BITS;
            // The part that alignment cut off at its start belongs to it.
            let start = bits::run_start(&self.allocated, skipped.start, base);
            work.words_read += words_between(start, skipped.start);
            self.blocks[block].offer::<true>(Run { start, end: skipped.end }.part_in(block));
        }
    }

    /// Allocates a free area.
    pub(super) fn take<const HINTS: bool>(&mut self, area: Run, work: &mut Work) {
        bits::set_range(&mut self.allocated, area.start, area.end);
        bits::mark_ends(&mut self.bounds, area.start, area.end);
        self.free_bits -= area.bits();
        let mut filled = 0;
        for block in area.blocks() {
            filled |= u64::from(self.take_in_block::<HINTS>(block, area, work)) << block;
        }
        if HINTS {
            self.empty -= (filled & self.populated).count_ones();
        }
        if area.start == self.hints.first_free {
            let last = *area.blocks().end();
            let base = last as u32 * BLOCK_BITS;
            // The last block has recomputed its own already.
            self.hints.first_free = if self.blocks[last].first_free < BLOCK_BITS {
                base + self.blocks[last].first_free
            } else {
                let from = base + BLOCK_BITS;
                let found = bits::next_zero(&self.allocated, from, self.hints.bits);
                work.words_read += words_between(from, found);
                found
            };
        }
        if self.hints.take::<HINTS>(area) {
            self.refresh::<HINTS>(false, work);
        }
    }

    /// True when the block was wholly free.
    #[inline]
    fn take_in_block<const HINTS: bool>(
        &mut self,
        index: usize,
        area: Run,
        work: &mut Work,
    ) -> bool {
        let part = area.part_in(index);
        let words = &self.allocated[index * BLOCK_WORDS..(index + 1) * BLOCK_WORDS];
        let block = &mut self.blocks[index];
        let was_free = block.is_free();
        if part.bits() == BLOCK_BITS {
            block.fill::<HINTS>();
            return was_free;
        }
        if part.start == block.first_free {
            block.first_free = bits::next_zero(words, part.end, BLOCK_BITS);
            work.words_read += words_between(part.end, block.first_free);
        }
        if block.take::<HINTS>(part) {
            self.refresh_block::<HINTS>(index, work);
        }
        was_free
    }

    /// Recomputes the hints of a block from the map, `pcpu_block_refresh_hint`.
    fn refresh_block<const HINTS: bool>(&mut self, index: usize, work: &mut Work) {
        work.block_refreshes += 1;
        let mut block = self.blocks[index];
        let words = self.words(index);
        let resumes = HINTS && block.promote_scan::<HINTS>();
        let from = if resumes { block.contig_run().end } else { block.first_free };
        if !resumes {
            block.drop_scan::<HINTS>();
            block.drop_contig::<HINTS>();
        }
        if HINTS {
            // Wrong where the refresh begins after that run.
            block.right = 0;
        }
        let mut at = from;
        while at < BLOCK_BITS {
            let start = bits::next_zero(words, at, BLOCK_BITS);
            if start == BLOCK_BITS {
                break;
            }
            at = bits::next_one(words, start, BLOCK_BITS);
            block.offer::<HINTS>(Run { start, end: at });
        }
        work.words_read += words_between(from, BLOCK_BITS - 1);
        self.blocks[index] = block;
    }

    /// Recomputes the hints of the chunk from its blocks, `pcpu_chunk_refresh_hint`. `full`:
    /// without using the scan hint.
    fn refresh<const HINTS: bool>(&mut self, full: bool, work: &mut Work) {
        let Chunk { hints, blocks, populated, .. } = self;
        let resumes = HINTS && !full && hints.promote_scan::<HINTS>();
        let from = if resumes { hints.contig_run().end } else { hints.first_free };
        if !resumes {
            hints.drop_scan::<HINTS>();
            hints.drop_contig::<HINTS>();
        }
        let (mut carried, mut empty) = (Run::EMPTY, 0);
        let first = (from / BLOCK_BITS) as usize;
        for (index, block) in blocks.iter().enumerate().skip(first) {
            let base = index as u32 * BLOCK_BITS;
            let resume = from.saturating_sub(base);
            if !HINTS && block.is_free() {
                empty += (*populated >> index & 1) as u32;
            }
            if resume == 0 {
                if carried.bits() == 0 {
                    carried = Run::new(base, 0);
                }
                carried.end += block.left;
                if block.is_free() {
                    continue;
                }
            }
            if carried.bits() > 0 {
                hints.offer::<HINTS>(carried);
            }
            carried = Run::EMPTY;
            let contig = block.contig_run();
            if contig.start != 0 && contig.end != BLOCK_BITS && contig.start >= resume {
                hints.offer::<HINTS>(Run::new(base + contig.start, contig.bits()));
            }
            let tail = BLOCK_BITS - block.right;
            if block.right > 0 && tail >= resume {
                carried = Run { start: base + tail, end: base + BLOCK_BITS };
            }
        }
        if carried.bits() > 0 {
            hints.offer::<HINTS>(carried);
        }
        work.blocks_refreshed += blocks.len().saturating_sub(first) as u64;
        if !HINTS {
            self.empty = empty;
        }
    }

    /// Frees an object.
    pub(super) fn give<const HINTS: bool>(&mut self, area: Run, work: &mut Work) {
        bits::clear_range(&mut self.allocated, area.start, area.end);
        self.free_bits += area.bits();
        let (first, last) = area.blocks().into_inner();
        let run = self.whole_run(first, last, area, work);
        let mut emptied = 0;
        for block in first..=last {
            let part = run.part_in(block);
            self.blocks[block].offer::<HINTS>(part);
            emptied |= u64::from(part.bits() == BLOCK_BITS) << block;
        }
        if HINTS {
            self.empty += (emptied & self.populated).count_ones();
        }
        if emptied != 0 || first != last {
            self.hints.first_free = self.hints.first_free.min(area.start);
            self.refresh::<HINTS>(true, work);
        } else {
            self.hints.offer::<HINTS>(run);
        }
    }

    /// A freed area with the free runs next to it in its first and in its last block.
    #[inline]
    fn whole_run(&self, first: usize, last: usize, area: Run, work: &mut Work) -> Run {
        let (base, hints) = (first as u32 * BLOCK_BITS, &self.blocks[first]);
        let start = if base + hints.contig_run().end == area.start {
            base + hints.contig_start
        } else {
            let start = bits::run_start(&self.allocated, area.start, base);
            work.words_read += words_between(start, area.start);
            start
        };
        let (base, hints) = (last as u32 * BLOCK_BITS, &self.blocks[last]);
        let end = if base + hints.contig_start == area.end {
            base + hints.contig_run().end
        } else {
            let end = bits::next_one(&self.allocated, area.end, base + BLOCK_BITS);
            work.words_read += words_between(area.end, end);
            end
        };
        Run { start, end }
    }

    /// The object that begins at a bit.
    #[inline]
    pub(super) fn object_at(&self, bit: u32, work: &mut Work) -> Option<Run> {
        if !bits::is_one(&self.allocated, bit) || !bits::is_one(&self.bounds, bit) {
            return None;
        }
        let end = bits::next_one(&self.bounds, bit + 1, self.hints.bits + 1);
        work.words_read += words_between(bit, end);
        Some(Run { start: bit, end: end.min(self.hints.bits) })
    }

    /// Populated pages without an object.
    #[cfg(test)]
    pub(super) fn empty_pages(&self) -> u32 {
        let pages = self.blocks.iter().enumerate();
        pages
            .map(|(page, block)| u32::from(block.is_free()) & (self.populated >> page) as u32)
            .sum()
    }

    /// The free runs, in order.
    pub(super) fn free_runs(&self) -> impl Iterator<Item = Run> {
        let end = self.hints.bits;
        let mut at = 0;
        core::iter::from_fn(move || {
            let start = bits::next_zero(&self.allocated, at, end);
            at = bits::next_one(&self.allocated, start, end);
            (start < end).then_some(Run { start, end: at })
        })
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
