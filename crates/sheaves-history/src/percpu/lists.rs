//! Lists of chunks by the power of two of their key, `pcpu_slot` of `mm/percpu.c`.

use super::chunk::Chunk;

/// No chunk.
pub(super) const NONE: u32 = u32::MAX;
/// The list of chunks without room, and of those removed from the search.
pub(super) const FULL: u32 = 0;
const LISTS_MAX: usize = 32;

/// Heads and tails of all lists.
#[derive(Debug)]
pub(super) struct Lists {
    ends: [(u32, u32); LISTS_MAX],
    /// One bit for each list that is not empty.
    occupied: u64,
    free: u32,
}

/// The list of a key in bits.
pub(super) fn list_of(bits: u32) -> u32 {
    bits.ilog2().max(1)
}

/// True when a chunk of this list that does not fit is removed from the search.
pub(super) fn is_small(list: u32) -> bool {
    list < list_of(8)
}

impl Lists {
    pub(super) fn new(unit_bits: u32) -> Lists {
        Lists { ends: [(NONE, NONE); LISTS_MAX], occupied: 0, free: list_of(unit_bits) + 1 }
    }

    /// The list of chunks without an object, the last one.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    #[inline]
    pub(super) fn head(&self, list: u32) -> u32 {
        self.ends[list as usize].0
    }

    pub(super) fn has_two_free(&self, chunks: &[Box<Chunk>]) -> bool {
        let head = self.head(self.free);
        head != NONE && chunks[head as usize].next != NONE
    }

    /// The lists from `first` on that are not empty, as bits.
    #[inline]
    pub(super) fn searched_from(&self, first: u32) -> u64 {
        self.occupied & (u64::MAX << first)
    }

    pub(super) fn add_head(&mut self, chunks: &mut [Box<Chunk>], chunk: u32, list: u32) {
        let (head, tail) = &mut self.ends[list as usize];
        let next = core::mem::replace(head, chunk);
        match next {
            NONE => *tail = chunk,
            _ => chunks[next as usize].previous = chunk,
        }
        self.occupied |= 1 << list;
        let view = &mut chunks[chunk as usize];
        (view.next, view.previous, view.list) = (next, NONE, list);
    }

    pub(super) fn add_tail(&mut self, chunks: &mut [Box<Chunk>], chunk: u32, list: u32) {
        let (head, tail) = &mut self.ends[list as usize];
        let previous = core::mem::replace(tail, chunk);
        match previous {
            NONE => *head = chunk,
            _ => chunks[previous as usize].next = chunk,
        }
        self.occupied |= 1 << list;
        let view = &mut chunks[chunk as usize];
        (view.next, view.previous, view.list) = (NONE, previous, list);
    }

    pub(super) fn remove(&mut self, chunks: &mut [Box<Chunk>], chunk: u32) {
        let view = &chunks[chunk as usize];
        let (next, previous, list) = (view.next, view.previous, view.list);
        let (head, tail) = &mut self.ends[list as usize];
        match previous {
            NONE => *head = next,
            _ => chunks[previous as usize].next = next,
        }
        match next {
            NONE => *tail = previous,
            _ => chunks[next as usize].previous = previous,
        }
        if *head == NONE {
            self.occupied &= !(1 << list);
        }
    }

    /// Moves a chunk to a list: up to its head, down to its tail.
    #[inline]
    pub(super) fn move_to(&mut self, chunks: &mut [Box<Chunk>], chunk: u32, list: u32) {
        let before = chunks[chunk as usize].list;
        if list != before {
            self.remove(chunks, chunk);
            match list > before {
                true => self.add_head(chunks, chunk, list),
                false => self.add_tail(chunks, chunk, list),
            }
        }
    }
}
