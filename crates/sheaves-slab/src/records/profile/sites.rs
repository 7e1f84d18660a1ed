//! Where samples were allocated: *sites*, each a list of return addresses and a cache, with sums
//! over the samples of the site. Each site is stored once.
//!
//! The table has a fixed size; sites are added, and never removed until all are.

use core::ptr::with_exposed_provenance_mut;

use sheaves_sys::map;
pub(crate) use sheaves_sys::stack::FRAMES_MAX;

use crate::parts::shape::Name;

/// Entries of the table, a power of two; three quarters of them are used at most.
const ENTRIES: usize = 1 << 15;
/// Room for the addresses of all sites, in words.
const WORDS: usize = 1 << 20;
const BYTES: usize = ENTRIES * size_of::<Site>() + WORDS * 8;

/// What is allocated at a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A size class of malloc.
    Malloc = 0,
    /// A named cache.
    Cache = 1,
    /// Blocks with a mapping of their own.
    Large = 2,
    /// Per-CPU objects, in all slots together.
    PerCpu = 3,
}

/// Objects and bytes that samples stand for, in weights: see [`super::chance`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sums {
    pub(crate) samples: u64,
    pub(crate) objects: u64,
    pub(crate) bytes: u64,
}

impl Sums {
    /// Adds one sample, or subtracts it.
    pub(crate) fn add(&mut self, is_added: bool, weight: u64, bytes: usize) {
        let step = if is_added { 1 } else { u64::MAX };
        let objects = weight.wrapping_mul(step);
        self.samples = self.samples.wrapping_add(step);
        self.objects = self.objects.wrapping_add(objects);
        self.bytes = self.bytes.wrapping_add(objects.wrapping_mul(bytes as u64));
    }
}

/// A site. All zeros where there is none.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Site {
    hash: u64,
    /// Index of its first address.
    first: u32,
    count: u32,
    pub(crate) source: Source,
    /// Samples that are allocated, or deferred.
    pub(crate) live: Sums,
    /// All samples that were ever counted here.
    pub(crate) all: Sums,
}

/// What makes two sites equal, besides their addresses. The name is that of the cache, whose number
/// another one may have had before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) kind: Kind,
    /// Number of the cache; 0 where there is none.
    pub(crate) cache: u16,
    /// The addresses are those of the call that deferred the samples.
    pub(crate) is_deferral: bool,
    pub(crate) name: Name,
}

impl Source {
    /// All of it, in words.
    fn words(&self) -> impl Iterator<Item = u64> {
        let name = self.name.as_str().as_bytes().chunks(8);
        let name = name.map(|part| part.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        let kind = (self.kind as u64) << 17 | u64::from(self.is_deferral) << 16;
        name.chain([kind | u64::from(self.cache)])
    }
}

/// The table.
#[derive(Debug)]
pub(crate) struct Sites {
    /// Address of the entries, and of the words after them; 0 before the first site.
    base: usize,
    count: usize,
    words_used: usize,
}

impl Sites {
    pub(crate) const fn new() -> Sites {
        Sites { base: 0, count: 0, words_used: 0 }
    }

    /// Maps the table. False when memory is out.
    pub(crate) fn map(&mut self) -> bool {
        if self.base == 0 {
            self.base = map::anywhere(BYTES).unwrap_or(0);
        }
        self.base != 0
    }

    /// Forgets every site.
    pub(crate) fn clear(&mut self) {
        if self.base != 0 {
            // SAFETY: the table's own mapping; nothing refers to it.
            unsafe { map::discard(self.base, BYTES) };
        }
        (self.count, self.words_used) = (0, 0);
    }

    pub(crate) fn site(&mut self, index: u32) -> &mut Site {
        debug_assert!(self.base != 0 && (index as usize) < ENTRIES);
        let address = self.base + index as usize * size_of::<Site>();
        // SAFETY: inside the table's mapping, which `&mut self` owns; zeros are a site.
        unsafe { &mut *with_exposed_provenance_mut::<Site>(address) }
    }

    fn words(&mut self, first: usize, count: usize) -> &mut [usize] {
        debug_assert!(first + count <= WORDS);
        let address = self.base + ENTRIES * size_of::<Site>() + first * 8;
        // SAFETY: inside the table's mapping, which `&mut self` owns.
        unsafe { core::slice::from_raw_parts_mut(with_exposed_provenance_mut(address), count) }
    }

    /// The site with these addresses, made if it is new; `None` when the table is full.
    pub(crate) fn find(&mut self, source: Source, addresses: &[usize]) -> Option<u32> {
        let hash = hash(&source, addresses);
        let mut index = hash as u32 % ENTRIES as u32;
        loop {
            let site = *self.site(index);
            if site.hash == 0 {
                break;
            }
            let is_equal = site.hash == hash
                && site.source == source
                && self.words(site.first as usize, site.count as usize) == addresses;
            if is_equal {
                return Some(index);
            }
            index = (index + 1) % ENTRIES as u32;
        }
        if self.count >= ENTRIES / 4 * 3 || self.words_used + addresses.len() > WORDS {
            return None;
        }
        let (first, count) = (self.words_used as u32, addresses.len() as u32);
        self.words(self.words_used, addresses.len()).copy_from_slice(addresses);
        self.words_used += addresses.len();
        self.count += 1;
        let (live, all) = (Sums::default(), Sums::default());
        *self.site(index) = Site { hash, first, count, source, live, all };
        Some(index)
    }

    /// The next site from `index` on.
    pub(crate) fn next(&mut self, index: u32) -> Option<Listed> {
        let end = if self.base == 0 { 0 } else { ENTRIES as u32 };
        let index = (index..end).find(|index| self.site(*index).hash != 0)?;
        let (site, mut addresses) = (*self.site(index), [0; FRAMES_MAX]);
        let words = self.words(site.first as usize, site.count as usize);
        addresses[..words.len()].copy_from_slice(words);
        Some(Listed { index, site, addresses })
    }
}

/// A copy of a site and its addresses.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) index: u32,
    pub(crate) site: Site,
    addresses: [usize; FRAMES_MAX],
}

impl Listed {
    pub(crate) fn addresses(&self) -> &[usize] {
        &self.addresses[..self.site.count as usize]
    }
}

/// Never 0. Multiplies and mixes each word, as splitmix64 does.
fn hash(source: &Source, addresses: &[usize]) -> u64 {
    let addresses = addresses.iter().map(|address| *address as u64);
    let mixed = source.words().chain(addresses).fold(0, |hash, word| {
        let number = (hash ^ word).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        number ^ (number >> 29)
    });
    mixed.wrapping_mul(0x94D0_49BB_1331_11EB) >> 20 | 1 << 63
}

#[cfg(test)]
#[path = "../../../tests/unit/profile_sites.rs"]
mod tests;
