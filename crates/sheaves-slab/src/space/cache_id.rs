//! Numbers of caches, and what follows from a number alone: words of the slots, entries of the
//! owner map.
//!
//! A cache has two words in every slot: number * 2 (the main sheaf) and number * 2 + 1 (the spare
//! one). The word of deferred objects is in a region of its own.
//!
//! The words of a hardened cache have other uses, see [`CacheId::hardened_words`].
//!
//! Numbers 1 to [`CLASSES_MAX`] are the size classes of malloc. Number 0 and the two after the
//! classes never name a cache, so their words are always vacant: the owner map's entries for
//! anything but a size class lead to these words.

use sheaves_percpu::internal::{Region, Word};

/// The most caches that can exist at one time.
pub(crate) const CACHES_MAX: usize = Region::CACHES.words() / 2;
/// The most size classes of malloc.
pub const CLASSES_MAX: usize = 96;
/// First number of a named cache.
pub(crate) const NAMED_FIRST: usize = CLASSES_MAX + 3;
/// The same in a hardened process: the words of the numbers before it are those of the sheaves from
/// which size classes are allocated.
pub(crate) const NAMED_FIRST_HARDENED: usize = NAMED_FIRST + CLASSES_MAX / 2;

/// Entry in the owner map of the slabs of named caches.
pub(crate) const NAMED: u16 = CacheId::new(CLASSES_MAX as u16 + 1).main().offset() as u16;
/// Entry of watched slabs, of any cache: the frees of their objects take the slow path.
pub(crate) const WATCHED: u16 = CacheId::new(CLASSES_MAX as u16 + 2).main().offset() as u16;

/// The number of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct CacheId(u16);

impl CacheId {
    /// The cache with number `number`; it must exist when it is used.
    #[inline]
    #[must_use]
    pub const fn new(number: u16) -> CacheId {
        CacheId(number)
    }

    /// The number.
    #[inline]
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// True for the cache of a size class of `malloc`, or of its blocks of size 0.
    #[inline]
    #[must_use]
    pub(crate) const fn is_class(self) -> bool {
        self.0 as usize <= CLASSES_MAX
    }

    /// Word and bit of the number in a set of cache numbers.
    pub(crate) const fn bit_in_set(self) -> (usize, u64) {
        (self.0 as usize / 64, 1 << (self.0 % 64))
    }

    /// The entry of the owner map for this cache's granules.
    #[inline]
    #[must_use]
    pub(crate) const fn entry(self) -> u16 {
        if self.is_class() { self.main().offset() as u16 } else { NAMED }
    }

    /// The cache with this word for its main sheaf.
    #[inline(always)]
    #[must_use]
    pub const fn of_main(word: Word) -> CacheId {
        CacheId((word.offset() / 16) as u16)
    }

    /// The size class of an owner map's entry, `None` for anything else. For a watched slab see
    /// [`super::slab::size_class_cache_of`].
    #[inline]
    #[must_use]
    pub const fn of_size_class_entry(entry: u16) -> Option<CacheId> {
        let is_class = entry != 0 && entry < NAMED;
        if is_class { Some(CacheId(entry / 16)) } else { None }
    }

    /// The cache of a size class of malloc.
    #[inline]
    #[must_use]
    pub const fn of_class(class: usize) -> CacheId {
        CacheId(class as u16 + 1)
    }

    /// The size class that a cache of [`CacheId::of_class`] serves.
    #[inline]
    #[must_use]
    pub const fn class(self) -> usize {
        self.0 as usize - 1
    }

    /// The value of `cache` in the headers of this cache's slabs.
    #[inline]
    pub(crate) const fn in_header(self) -> u16 {
        self.0 + 1
    }

    /// The word of the main sheaf, onto which objects are freed, and from which they are allocated
    /// unless samples are drawn.
    #[inline(always)]
    #[must_use]
    pub const fn main(self) -> Word {
        Word::new(2 * (self.0 as usize % CACHES_MAX))
    }

    /// The word of the spare sheaf, which is usually full or empty. It takes the place of a main
    /// sheaf that is empty or full. While samples are drawn, objects are allocated from here.
    #[must_use]
    pub const fn spare(self) -> Word {
        Word::new(2 * (self.0 as usize % CACHES_MAX) + 1)
    }

    /// The words of a hardened cache that have sheaves: that of what was freed and is sealed, and
    /// that from which objects are allocated.
    ///
    /// The main word of a size class is always vacant, so each free takes the slow path, and so do
    /// calls with a layout. `malloc` finds a word of its own in the heap's table of sizes. A named
    /// cache has no sheaf in the first word, and each of its calls takes the slow path.
    pub(crate) const fn hardened_words(self) -> [Word; 2] {
        if self.is_class() { [self.sealed(), self.stock()] } else { [self.main(), self.spare()] }
    }

    /// The word of a size class with what was freed and is sealed, in a hardened process.
    #[inline]
    pub(crate) const fn sealed(self) -> Word {
        // No other number: so it needs no division.
        Word::at_offset(self.0 as usize * 16 + 8)
    }

    /// The word of a size class from which `malloc` allocates in a hardened process.
    #[must_use]
    pub const fn stock(self) -> Word {
        Word::new(2 * NAMED_FIRST + (self.0 as usize - 1) % CLASSES_MAX)
    }

    /// The size class with this word for its [`CacheId::stock`].
    #[inline]
    #[must_use]
    pub const fn of_stock(word: Word) -> CacheId {
        CacheId((word.offset() / 8 - 2 * NAMED_FIRST + 1) as u16)
    }

    /// The word of the sheaf onto which objects are deferred.
    #[inline(always)]
    #[must_use]
    pub const fn deferred(self) -> Word {
        Region::DEFERRED.word(self.0 as usize % CACHES_MAX)
    }

    /// The word of an owner map's entry: that of a size class's main sheaf, or one that is always
    /// vacant.
    #[inline(always)]
    #[must_use]
    pub const fn main_of_entry(entry: usize) -> Word {
        Word::at_offset(entry)
    }

    /// The word of deferred objects for an owner map's entry, as [`CacheId::main_of_entry`].
    #[inline(always)]
    #[must_use]
    pub const fn deferred_of_entry(entry: usize) -> Word {
        Word::at_offset(Region::DEFERRED.word(0).offset() + entry / 16 * 8)
    }
}

const _: () = {
    assert!(Region::DEFERRED.words() == CACHES_MAX);
    // A header has 0 for none, see `CacheId::in_header`.
    assert!(CACHES_MAX <= u16::MAX as usize);
    let last = CacheId::of_class(CLASSES_MAX - 1);
    let entry = last.entry() as usize;
    assert!(CacheId::deferred_of_entry(entry).offset() == last.deferred().offset());
    assert!(entry < NAMED as usize && entry == last.main().offset());
    assert!(CacheId::of_stock(last.stock()).0 == last.0);
    assert!(last.sealed().offset() == last.spare().offset());
    assert!(last.stock().offset() < Word::new(2 * NAMED_FIRST_HARDENED).offset());
    assert!(CacheId::new(NAMED_FIRST as u16 - 2).main().offset() == NAMED as usize);
    assert!(CacheId::new(NAMED_FIRST as u16 - 1).main().offset() == WATCHED as usize);
};
