//! The lists of chunks, from chunks without space to chunks without an object.
//!
//! | list | chunks in it |
//! |---|---|
//! | 0 | without a free bit, or relegated: moved here because a request did not fit |
//! | 1 and up | by the longest free run: 4, 8, ... 28 bytes, then four lists per power of two |
//! | last but one | sidelined: pages were depopulated |
//! | last | free: without an object |
//!
//! A request begins with the list of its own size and goes up. With four lists per power of two,
//! few chunks in its first list turn out to be too small for it. A chunk that gained space moves to
//! the head of its new list, and one that lost space to the tail. So the fullest chunks are filled
//! first. The links are chunk numbers in the headers.

use crate::dynamic::config::{GRAIN_BYTES, UNIT_BYTES_MAX};
use crate::dynamic::records::Records;

pub(super) const NONE: u32 = u32::MAX;
const LISTS_MAX: usize = 64;
/// Runs of fewer bits are small: a chunk in their lists is relegated when a request does not fit.
const SMALL_BITS: u32 = 8;
/// The list of chunks without space.
pub(super) const FULL: u32 = 0;

#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) head: u32,
    pub(super) tail: u32,
}

#[derive(Debug)]
pub(super) struct Lists {
    pub(super) ends: [Ends; LISTS_MAX],
    pub(super) occupied: u64,
    /// Number of the last list but one.
    pub(super) sidelined: u32,
}

/// The list of chunks whose longest run has `bits` bits: at least 1, and fewer than a unit.
#[inline(always)]
pub(super) fn list_of(bits: u32) -> u32 {
    if bits < SMALL_BITS {
        bits
    } else {
        let power = bits.ilog2();
        let quarter = bits >> (power - 2) & 3;
        SMALL_BITS + (power - SMALL_BITS.ilog2()) * 4 + quarter
    }
}

/// True when a chunk that does not fit is to be taken out of this list.
#[inline(always)]
pub(super) fn is_small(list: u32) -> bool {
    list < list_of(SMALL_BITS)
}

impl Lists {
    pub(super) fn new(unit_bits: u32) -> Lists {
        let ends = [Ends { head: NONE, tail: NONE }; LISTS_MAX];
        Lists { ends, occupied: 0, sidelined: list_of(unit_bits) + 1 }
    }

    pub(super) fn free(&self) -> u32 {
        self.sidelined + 1
    }

    #[inline(always)]
    pub(super) fn head(&self, list: u32) -> u32 {
        self.ends[list as usize].head
    }

    /// Makes two chunks of a list neighbours; [`NONE`] stands for its end.
    fn join(&mut self, records: &mut Records, list: u32, previous: u32, next: u32) {
        let ends = &mut self.ends[list as usize];
        match previous {
            NONE => ends.head = next,
            _ => records.header_mut(previous).next = next,
        }
        match next {
            NONE => ends.tail = previous,
            _ => records.header_mut(next).previous = previous,
        }
    }

    /// Adds a chunk that is in no list to the head or the tail of one.
    pub(super) fn add(&mut self, records: &mut Records, chunk: u32, list: u32, at_head: bool) {
        let ends = self.ends[list as usize];
        let (previous, next) = if at_head { (NONE, ends.head) } else { (ends.tail, NONE) };
        self.join(records, list, previous, chunk);
        self.join(records, list, chunk, next);
        self.occupied |= 1 << list;
        records.header_mut(chunk).list = list;
    }

    pub(super) fn remove(&mut self, records: &mut Records, chunk: u32) {
        let header = records.header(chunk);
        let (previous, next, list) = (header.previous, header.next, header.list);
        self.join(records, list, previous, next);
        if self.head(list) == NONE {
            self.occupied &= !(1 << list);
        }
    }

    #[cold]
    pub(super) fn rotate(&mut self, records: &mut Records, list: u32, count: u32) {
        for _ in 0..count {
            let head = self.head(list);
            self.remove(records, head);
            self.add(records, head, list, false);
        }
    }

    /// Moves a chunk to the list that it now belongs to: to the head if the list is higher than
    /// before, otherwise to the tail.
    #[inline]
    pub(super) fn move_to(&mut self, records: &mut Records, chunk: u32, list: u32) {
        let before = records.header(chunk).list;
        if list == before {
            return;
        }
        self.remove(records, chunk);
        self.add(records, chunk, list, list > before);
    }
}

const _: () = {
    // The largest unit's list and the two above it.
    let power = (UNIT_BYTES_MAX / GRAIN_BYTES).ilog2();
    assert!(SMALL_BITS + (power - SMALL_BITS.ilog2()) * 4 + 2 < LISTS_MAX as u32);
    assert!(LISTS_MAX as u32 <= u64::BITS);
};
