//! The lists of a cache's slabs, by fill: each slab is on one of them.
//!
//! Bin 0 holds the fullest slabs that have free objects, bin 6 the emptiest that are in use, bin 7
//! those without allocated objects, and bin 8 those without free objects. Refills take from the
//! lowest bin, so that sparse slabs can become empty.
//!
//! Flushes do not move slabs between bins, since they hold no lock. A refill that finds a slab in
//! the wrong bin moves it. A thread that flushes objects into a slab without free objects, or the
//! last allocated ones into any slab, moves that slab afterwards. In a child of a fork that thread
//! may be missing: then all slabs are checked once, see [`SlabLists::set_unsorted`].
//!
//! Everything here happens under the cache's lock. Where a child of a fork took the lock over from
//! a thread that it does not have, the lists are rebuilt from the owner map and the slabs' headers:
//! see [`SlabLists::recover`].

use core::sync::atomic::Ordering;

use sheaves_rcu::Cookie;

use crate::cache_id::CacheId;
use crate::granule::{self, Granule};
use crate::shape::Shape;
use crate::slab::{self, Slab, UNLISTED};

/// Number of bins of slabs that have free objects.
const BINS: usize = 8;
/// The bin of slabs without allocated objects.
const EMPTY_BIN: usize = BINS - 1;
/// The bin of slabs without free objects.
const FULL_BIN: usize = BINS;

/// State under the cache's lock.
#[derive(Debug)]
pub(crate) struct SlabLists {
    /// First slab of each bin, as granule number + 1, or 0.
    heads: [u32; BINS + 1],
    /// SlabLists of the cache.
    pub(crate) count: u32,
    /// SlabLists in the empty bin.
    pub(crate) empty: u32,
    /// A slab may be in a wrong bin, and no thread is about to move it.
    is_unsorted: bool,
}

impl SlabLists {
    pub(crate) const fn new() -> SlabLists {
        SlabLists { heads: [0; BINS + 1], count: 0, empty: 0, is_unsorted: false }
    }

    /// Notes that threads which would have moved slabs may be gone: then [`SlabLists::sort`] moves
    /// them.
    pub(crate) fn set_unsorted(&mut self) {
        self.is_unsorted = true;
    }

    /// Moves every slab that is in a wrong bin, if there may be one.
    pub(crate) fn sort(&mut self, shape: &Shape) {
        if !core::mem::take(&mut self.is_unsorted) {
            return;
        }
        for bin in 0..self.heads.len() {
            let mut next = self.heads[bin];
            while let Some(number) = next.checked_sub(1) {
                let slab = slab::header(Granule(number));
                // Relaxed: under the cache's lock.
                next = slab.next.load(Ordering::Relaxed);
                if right_bin(slab, shape.slab_objects) != bin {
                    self.move_slab(Granule(number), shape);
                }
            }
        }
    }

    /// Rebuilds the lists in a child of a fork, where a thread that the child does not have was
    /// changing them. A slab that it was releasing is lost; objects that it was taking count as
    /// allocated.
    pub(crate) fn recover(&mut self, id: CacheId, shape: &Shape) {
        *self = SlabLists::new();
        for granule in granule::all().filter(|granule| granule.owner() == id.owner()) {
            let slab = slab::header(granule);
            let is_first = granule.align_down(shape.granules) == granule;
            // Relaxed: the child has one thread.
            if is_first && slab.cache.load(Ordering::Relaxed) == id.in_header() {
                granule.set_owner(shape.granules, id.owner(), id.owner());
                self.count += 1;
                self.list(granule, shape);
            }
        }
    }

    /// The fullest slab that has a free object, or `None`.
    pub(crate) fn fullest(&mut self, shape: &Shape) -> Option<Granule> {
        let found = self.fullest_known(shape);
        if found.is_some() || !self.is_unsorted {
            return found;
        }
        self.sort(shape);
        self.fullest_known(shape)
    }

    fn fullest_known(&mut self, shape: &Shape) -> Option<Granule> {
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
            self.move_slab(granule, shape);
        }
        None
    }

    /// Moves a slab from its list to that of its bin.
    pub(crate) fn move_slab(&mut self, granule: Granule, shape: &Shape) {
        self.unlist(granule);
        self.list(granule, shape);
    }

    /// Puts a slab that is on no list on that of its bin.
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
            // All its objects were freed before: a reader that still has one is older than this
            // cookie.
            slab.cookie.store(Cookie::get().to_bits(), Ordering::Relaxed);
        }
        self.empty += u32::from(bin == EMPTY_BIN);
    }

    /// Removes a slab from its list.
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

    /// A slab without allocated objects, if one is known; if `typesafe`, one whose cookie has
    /// passed.
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

    /// Calls `visit` for every slab that may have free objects.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Granule)) {
        for head in &self.heads[..BINS + usize::from(self.is_unsorted)] {
            let mut next = *head;
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

/// The bin for a slab by its current fill.
fn right_bin(slab: &Slab, slab_objects: usize) -> usize {
    // Acquire pairs with the Release in `count_put`: a slab that counts as empty is empty.
    let free = slab.free.load(Ordering::Acquire) as usize;
    match free {
        0 => FULL_BIN,
        free if free == slab_objects => EMPTY_BIN,
        free => free * EMPTY_BIN / slab_objects,
    }
}

/// True when a slab is listed as one without free objects. Under the cache's lock.
pub(crate) fn is_listed_as_full(slab: &Slab) -> bool {
    // Relaxed: under the cache's lock.
    slab.bin.load(Ordering::Relaxed) as usize == FULL_BIN
}

#[cfg(test)]
#[path = "../tests/unit/slab_lists.rs"]
mod tests;
