//! Columns of per-CPU state: words of blocks, and words of objects in rows.

use core::sync::atomic::AtomicUsize;

pub(crate) const BLOCK_WORDS: usize = 4096;

/// A range of words in every block, used by one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    pub(crate) index: usize,
    first: usize,
    words: usize,
    /// How many words are initialised from the start on.
    pub(crate) at_start: usize,
}

impl Region {
    /// Two words for each object cache: the cursors of its main and of its spare sheaf. Those of
    /// size classes are initialised from the start on: malloc's fast paths may use them before the
    /// cache is created.
    pub const CACHES: Region = Region { index: 0, first: 0, words: 1920, at_start: 256 };
    /// This crate's own words: the caches of per-CPU objects.
    pub(crate) const OWN: Region = Region { index: 1, first: 1920, words: 128, at_start: 0 };
    /// Words for deferred calls, which are pushed without a check.
    pub const CALLS: Region = Region { index: 2, first: 2048, words: 64, at_start: 1 };
    /// One word for each object cache: deferred frees.
    pub const DEFERRED: Region = Region { index: 3, first: 2112, words: 960, at_start: 128 };

    pub(crate) const ALL: [Region; 4] =
        [Region::CACHES, Region::OWN, Region::CALLS, Region::DEFERRED];

    /// Its words that are initialised from the start on.
    pub(crate) fn words_at_start(self) -> impl Iterator<Item = Word> {
        (self.first..self.first + self.at_start).map(Word::new)
    }

    /// Number of its words.
    pub const fn words(self) -> usize {
        self.words
    }

    /// Its word number `index`.
    ///
    /// # Panics
    /// At compile time or start, when the region has fewer words.
    #[inline]
    pub const fn word(self, index: usize) -> Word {
        assert!(index < self.words);
        Word::new(self.first + index)
    }
}

/// Bytes of a block, the head of each row.
pub const BLOCK_BYTES: usize = BLOCK_WORDS * 8;

/// One column of the per-slot state: the same eight bytes in every slot's block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Word {
    offset: usize,
}

impl Word {
    /// Word number `index` of every block.
    ///
    /// # Panics
    /// At compile time or start, when a block has fewer words.
    #[inline]
    pub const fn new(index: usize) -> Word {
        assert!(index < BLOCK_WORDS);
        Word { offset: index * 8 }
    }

    /// The word at an offset from [`Word::offset`].
    #[inline(always)]
    pub const fn at_offset(offset: usize) -> Word {
        debug_assert!(offset < BLOCK_BYTES && offset.is_multiple_of(8));
        Word { offset }
    }

    /// Offset in a block, in bytes.
    #[inline]
    pub const fn offset(self) -> usize {
        self.offset
    }

    #[inline]
    pub(crate) fn in_block(self, block: usize) -> &'static AtomicUsize {
        at(block + self.offset)
    }
}

/// The word at an offset of every row: in its block, or in a per-CPU object.
///
/// # Invariants
/// The offset is a multiple of 8 and every open row has memory at it. While a copy of this is used,
/// an object there stays allocated, and only transactions and atomics change the eight bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct RowWord {
    offset: usize,
}

impl RowWord {
    /// # Safety
    /// The invariants hold.
    #[inline(always)]
    pub const unsafe fn new(offset: usize) -> RowWord {
        // INVARIANT: the same contract.
        RowWord { offset }
    }

    /// Offset in a row, in bytes.
    #[inline(always)]
    pub const fn offset(self) -> usize {
        self.offset
    }

    #[inline]
    pub(crate) fn in_row(self, row: usize) -> &'static AtomicUsize {
        at(row + self.offset)
    }
}

/// The word at an address in a row or in the bootstrap block.
#[inline]
fn at(address: usize) -> &'static AtomicUsize {
    let pointer = core::ptr::with_exposed_provenance::<AtomicUsize>(address);
    // SAFETY: 1. callers pass addresses in open rows or in static memory, which are never unmapped;
    // 2. they are multiples of 8; 3. all access from Rust is atomic.
    unsafe { &*pointer }
}

const _: () = {
    assert!(BLOCK_BYTES.is_multiple_of(4096));
    let mut index = 1;
    while index < Region::ALL.len() {
        let before = Region::ALL[index - 1];
        assert!(before.first + before.words <= Region::ALL[index].first);
        assert!(Region::ALL[index].index == index);
        index += 1;
    }
    assert!(Region::DEFERRED.first + Region::DEFERRED.words <= BLOCK_WORDS);
};
