//! The lists of a cache's slabs that have free objects, by how full they are.
//!
//! Bin 0 holds the fullest slabs, bin 6 the emptiest that are in use, bin 7 those with no object
//! out. Refills take from the lowest bin, so that sparse slabs get the chance to become empty.
//! Flushes do not move slabs between bins (they hold no lock); a refill that meets a slab in the
//! wrong bin moves it. Everything here happens under the cache's lock.

use core::sync::atomic::Ordering;

use sheaves_rcu::Cookie;

use crate::descriptor::Shape;
use crate::granule::Granule;
use crate::slab::{self, Slab, UNLISTED};

const BINS: usize = 8;
/// The bin of slabs with no object out.
const EMPTY_BIN: usize = BINS - 1;

/// What the cache's lock guards.
#[derive(Debug)]
pub(crate) struct Slabs {
    /// First slab of each bin, as granule number + 1, or 0.
    heads: [u32; BINS],
    /// Slabs of the cache, listed or not.
    pub(crate) count: u32,
    /// Slabs in the empty bin.
    pub(crate) empty: u32,
}

impl Slabs {
    pub(crate) const fn new() -> Slabs {
        Slabs { heads: [0; BINS], count: 0, empty: 0 }
    }

    /// The fullest listed slab, or `None` when no slab has a free object.
    pub(crate) fn fullest(&mut self, shape: &Shape) -> Option<Granule> {
        let mut bin = 0;
        while bin < BINS {
            let Some(number) = self.heads[bin].checked_sub(1) else {
                bin += 1;
                continue;
            };
            let granule = Granule(number);
            let right = right_bin(slab::header(granule), shape.slab_objects);
            if right <= bin {
                return Some(granule);
            }
            self.unlist(granule);
            self.list(granule, shape);
        }
        None
    }

    /// Puts a slab that has free objects on the list of its bin.
    pub(crate) fn list(&mut self, granule: Granule, shape: &Shape) {
        let slab = slab::header(granule);
        let bin = right_bin(slab, shape.slab_objects);
        let head = self.heads[bin];
        // Relaxed, all of this file: under the cache's lock.
        slab.next.store(head, Ordering::Relaxed);
        slab.previous.store(0, Ordering::Relaxed);
        if let Some(number) = head.checked_sub(1) {
            slab::header(Granule(number)).previous.store(granule.0 + 1, Ordering::Relaxed);
        }
        self.heads[bin] = granule.0 + 1;
        slab.bin.store(bin as u32, Ordering::Relaxed);
        if bin == EMPTY_BIN && shape.typesafe {
            // All its objects were freed before: who can still have one is older than this.
            slab.cookie.store(Cookie::get().to_bits(), Ordering::Relaxed);
        }
        self.empty += u32::from(bin == EMPTY_BIN);
    }

    /// Takes a slab off its list.
    pub(crate) fn unlist(&mut self, granule: Granule) {
        let slab = slab::header(granule);
        // Relaxed, all: under the cache's lock.
        let bin = slab.bin.swap(UNLISTED, Ordering::Relaxed) as usize;
        let next = slab.next.load(Ordering::Relaxed);
        let previous = slab.previous.load(Ordering::Relaxed);
        if let Some(number) = next.checked_sub(1) {
            slab::header(Granule(number)).previous.store(previous, Ordering::Relaxed);
        }
        match previous.checked_sub(1) {
            Some(number) => slab::header(Granule(number)).next.store(next, Ordering::Relaxed),
            None => self.heads[bin] = next,
        }
        self.empty -= u32::from(bin == EMPTY_BIN);
    }

    /// A slab with no object out, if one is known; if `typesafe`, one that readers left.
    pub(crate) fn an_empty_one(&self, typesafe: bool) -> Option<Granule> {
        let mut next = self.heads[EMPTY_BIN];
        while let Some(number) = next.checked_sub(1) {
            let slab = slab::header(Granule(number));
            // Relaxed, both: under the cache's lock.
            let cookie = Cookie::from_bits(slab.cookie.load(Ordering::Relaxed));
            if !typesafe || cookie.has_passed() {
                return Some(Granule(number));
            }
            next = slab.next.load(Ordering::Relaxed);
        }
        None
    }

    /// Calls `visit` for every listed slab.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Granule)) {
        for head in self.heads {
            let mut next = head;
            while let Some(number) = next.checked_sub(1) {
                visit(Granule(number));
                // Relaxed: under the cache's lock.
                next = slab::header(Granule(number)).next.load(Ordering::Relaxed);
            }
        }
    }

    /// Sum of the free objects of all slabs.
    pub(crate) fn free_objects(&self) -> usize {
        let mut sum = 0;
        // Relaxed: statistics under the cache's lock; flushes may add meanwhile.
        self.for_each(|slab| sum += slab::header(slab).free.load(Ordering::Relaxed) as usize);
        sum
    }
}

/// The bin for a slab as full as this one is now.
fn right_bin(slab: &Slab, slab_objects: usize) -> usize {
    // Acquire pairs with the Release in `count_put`: a slab that counts as empty is empty.
    let free = slab.free.load(Ordering::Acquire) as usize;
    if free == slab_objects { EMPTY_BIN } else { free * EMPTY_BIN / slab_objects }
}
