//! Live blocks: the addresses that they cover, and the contents that were written.

use core::alloc::Layout;
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;
use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::op::{Op, mix};

/// A violation that the shadow has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Two live blocks share addresses.
    Overlap { new: Range<usize>, old: Range<usize> },
    /// A live block was changed by another write, or a copy has lost bytes.
    Contents { address: usize, offset: usize },
    /// Memory from `calloc` does not read as zeros.
    NotZero { address: usize, offset: usize },
    /// A block is not at a multiple of the alignment.
    Misaligned { address: usize, align: usize },
    /// The usable size is below the size.
    TooSmall { address: usize, usable: usize, size: usize },
    /// Null, though the kernel has enough memory.
    Refused(Op),
    /// Objects are out after everything was freed.
    Left { objects: usize },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:x?}")
    }
}

/// The live blocks of the process by address: start and end.
#[derive(Debug, Default)]
pub(crate) struct Shadow(Mutex<BTreeMap<usize, usize>>);

impl Shadow {
    /// Adds a block that the heap has just returned.
    fn insert(&self, new: Range<usize>) -> Result<(), Wrong> {
        let mut live = self.0.lock().unwrap();
        // Live blocks do not overlap, so the last one that starts below our end decides.
        match live.range(..new.end).next_back() {
            Some((start, end)) if *end > new.start => {
                Err(Wrong::Overlap { new, old: *start..*end })
            }
            _ => {
                live.insert(new.start, new.end);
                Ok(())
            }
        }
    }

    /// Removes a block before it is freed.
    fn remove(&self, start: usize) {
        self.0.lock().unwrap().remove(&start).expect("only live blocks are removed");
    }

    /// Number of live blocks.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// The call by which a block has to be freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Layout(Layout),
    Cache(usize),
}

/// A live block, its bytes written.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) start: NonNull<u8>,
    pub(crate) size: usize,
    pub(crate) kind: Kind,
    seed: u64,
}

// SAFETY: a block is plain memory, and only the holder of the `Block` uses it.
unsafe impl Send for Block {}

impl Block {
    /// Registers a block that the heap has just returned, and writes to it.
    pub(crate) fn enter(
        shadow: &Shadow,
        start: NonNull<u8>,
        (size, usable): (usize, usize),
        kind: Kind,
        seed: u64,
    ) -> Result<Block, Wrong> {
        let address = start.as_ptr().addr();
        if usable < size {
            return Err(Wrong::TooSmall { address, usable, size });
        }
        shadow.insert(address..address + usable.max(1))?;
        let block = Block { start, size, kind, seed };
        block.write();
        Ok(block)
    }

    /// Removes the block from the shadow, after checking its contents.
    pub(crate) fn leave(&self, shadow: &Shadow) -> Result<(), Wrong> {
        self.check_copy(self.start, self.size)?;
        shadow.remove(self.start.as_ptr().addr());
        Ok(())
    }

    fn write(&self) {
        for spot in spots(self.size, self.seed) {
            for (offset, bytes) in pieces(spot) {
                let word = self.word(offset).to_ne_bytes();
                // SAFETY: the spot is inside the block.
                let place = unsafe { self.start.add(offset) };
                // SAFETY: as above; the block is ours, and `word` is no part of it.
                unsafe { place.copy_from_nonoverlapping(NonNull::from(&word).cast(), bytes) };
            }
        }
    }

    /// Compares the first `size` bytes at `copy` with what was written into this block.
    pub(crate) fn check_copy(&self, copy: NonNull<u8>, size: usize) -> Result<(), Wrong> {
        for spot in spots(self.size, self.seed) {
            for (offset, bytes) in pieces(spot.start..spot.end.min(size)) {
                // SAFETY: the copy has `size` bytes at the least.
                let place = unsafe { copy.add(offset) };
                // SAFETY: as above, and no thread writes to them now.
                let found = unsafe { core::slice::from_raw_parts(place.as_ptr(), bytes) };
                if *found != self.word(offset).to_ne_bytes()[..bytes] {
                    return Err(Wrong::Contents { address: copy.as_ptr().addr(), offset });
                }
            }
        }
        Ok(())
    }

    /// The word at an offset. It depends on address and seed, so that neither a misplaced block nor
    /// an older one at the same address passes for this one.
    fn word(&self, offset: usize) -> u64 {
        let base = self.start.as_ptr().addr() as u64 ^ self.seed;
        base.wrapping_add(offset as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// The parts of a block that are written: all of a small one; both ends of a large one, and a word
/// in each of up to 64 pages.
fn spots(size: usize, seed: u64) -> impl Iterator<Item = Range<usize>> {
    const PAGE: usize = 4096;
    const PAGES_MAX: usize = 64;
    let is_small = size <= PAGE;
    let step = (size / PAGE).div_ceil(PAGES_MAX).max(1);
    let ends = if is_small { [0..size, 0..0] } else { [0..64, (size - 64) & !7..size] };
    let pages = if is_small { 0..0 } else { 1..size / PAGE };
    let inner = pages.step_by(step).map(move |page| {
        let start = page * PAGE + (mix(seed ^ page as u64) as usize & (PAGE - 8));
        start..start + 8
    });
    ends.into_iter().chain(inner)
}

/// Cuts a spot, whose start is a multiple of 8, into words and a remainder: offsets and lengths.
fn pieces(spot: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    let end = spot.end;
    spot.step_by(8).map(move |offset| (offset, (end - offset).min(8)))
}

/// Checks that a block is at a multiple of its alignment.
pub(crate) fn check_alignment(start: NonNull<u8>, align: usize) -> Result<(), Wrong> {
    let address = start.as_ptr().addr();
    if address.is_multiple_of(align) { Ok(()) } else { Err(Wrong::Misaligned { address, align }) }
}

/// Checks that all bytes are zero.
pub(crate) fn check_zero(start: NonNull<u8>, size: usize) -> Result<(), Wrong> {
    // SAFETY: `size` bytes that `calloc` has just returned to the caller.
    let bytes = unsafe { core::slice::from_raw_parts(start.as_ptr(), size) };
    // SAFETY: every bit pattern is a valid number.
    let (head, words, tail) = unsafe { bytes.align_to::<u64>() };
    // One OR over all words, which the compiler vectorizes, and a search only where it is not zero.
    let all = words.iter().fold(0, |all, word| all | word);
    if all == 0 && head.iter().chain(tail).all(|byte| *byte == 0) {
        return Ok(());
    }
    let offset = bytes.iter().position(|byte| *byte != 0).unwrap_or(0);
    Err(Wrong::NotZero { address: start.as_ptr().addr(), offset })
}
