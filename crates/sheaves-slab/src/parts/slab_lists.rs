//! The lists of a cache's slabs, by fill: each slab is on one of them.
//!
//! List 0 holds the fullest slabs that have free objects, list 6 the emptiest that are in use, list
//! 7 those without allocated objects, and list 8 those without free objects. Refills take from the
//! lowest list, so that sparse slabs can become empty; where objects share lines, from the lowest
//! on which there is one for the slot. List 9 holds the watched slabs that have free objects, which
//! are taken for samples only. A watched slab without allocated objects becomes an ordinary one.
//!
//! Flushes do not move slabs between lists, since they hold no lock. A refill that finds slabs on
//! the wrong list moves [`MOVES`] of them at most, then takes the fullest that it has seen: the
//! refills that follow move the others. A thread that flushes objects into a slab without free
//! objects, or the last allocated ones into any slab, moves that slab afterwards. In a child of a
//! fork that thread may be missing: then all slabs are checked once, see [`SlabLists::sort`].
//!
//! Everything here happens under the cache's lock. No refill and no flush looks at more slabs than
//! [`MOVES`] and [`LOOKED_AT`] for each list.

use core::sync::atomic::Ordering;

use sheaves_percpu::internal::slots::slots_used;
use sheaves_rcu::Cookie;
use sheaves_sys::lock;

use crate::parts::shape::Shape;
use crate::space::granule::Granule;
use crate::space::hint::Hint;
use crate::space::slab::{self, Slab, UNLISTED};

/// The list of slabs without allocated objects; those below it are of slabs in use.
const EMPTY: usize = 7;
/// The list of slabs without free objects.
const FULL: usize = EMPTY + 1;
/// The list of watched slabs that have free objects.
const WATCHED: usize = FULL + 1;
/// A search for a slab with free objects moves this many slabs to their right list.
const MOVES: usize = 16;
/// A search for a slot's slab looks at this many slabs of a list.
const LOOKED_AT: usize = 4;
/// Slots whose current slab is remembered.
const CURRENT: usize = 16;
/// On this list and those behind it, more than half of a slab's objects are free.
const SPARSE: usize = 4;
/// With more slabs than these for each slot, they serve no slot: lines that are shared cost less
/// than lines that are in no cache, and memory less than half of which is in use.
const SLOT_SLABS: usize = 8;

/// Counts of a cache's slabs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    /// Slabs that exist.
    pub(crate) slabs: u32,
    /// Slabs on the list of empty ones.
    pub(crate) empty: u32,
    /// Refills, slabs created and slabs released so far.
    pub(crate) refills: u64,
    pub(crate) slabs_made: u64,
    pub(crate) slabs_released: u64,
}

/// State under the cache's lock.
#[derive(Debug)]
pub(crate) struct SlabLists {
    /// First slab of each list, as granule number + 1, or 0.
    heads: [u32; WATCHED + 1],
    /// The last slab of the list of empty ones, likewise: the one that has been there longest.
    oldest_empty: u32,
    pub(crate) counts: Counts,
    /// The slab from which a slot has refilled last, likewise; slots take turns. Never one that was
    /// released.
    current: [u32; CURRENT],
    /// The next slab that [`SlabLists::sort`] looks at: how many lists follow its own, and the slab
    /// as above, or 0 for the first of the next list. Both are 0 if all are on the right one.
    unsorted: (usize, u32),
    /// What [`FORKS`] was when that began.
    forks: usize,
}

/// Forks between the first process and this one in which threads were left behind.
static FORKS: Hint = Hint::new(0);

/// In the child of a fork: threads that would have moved slabs may be gone. Without the lock, which
/// this thread may have had before the fork.
pub(crate) fn note_fork() {
    FORKS.add(1);
}

impl SlabLists {
    pub(crate) const fn new() -> SlabLists {
        let counts = Counts { slabs: 0, empty: 0, refills: 0, slabs_made: 0, slabs_released: 0 };
        SlabLists {
            heads: [0; WATCHED + 1],
            oldest_empty: 0,
            counts,
            current: [0; CURRENT],
            unsorted: (0, 0),
            forks: 0,
        }
    }

    /// The slabs of a list, for a search. A slab may be moved once the iterator has returned it.
    fn on_list(&self, list: usize) -> impl Iterator<Item = (Granule, &'static Slab)> + use<> {
        self.all_on_list(list).inspect(|_| lock::step())
    }

    /// The slabs of a list, for what is not bounded.
    fn all_on_list(&self, list: usize) -> impl Iterator<Item = (Granule, &'static Slab)> + use<> {
        let mut next = self.heads[list];
        core::iter::from_fn(move || {
            let granule = Granule(next.checked_sub(1)?);
            let slab = slab::header(granule);
            // Relaxed: under the cache's lock.
            next = slab.next.load(Ordering::Relaxed);
            Some((granule, slab))
        })
    }

    /// [`SlabLists::sort`] is to check all slabs.
    pub(crate) fn note_unsorted(&mut self) {
        self.unsorted = (WATCHED, self.heads[0]);
    }

    /// Moves slabs that are on a wrong list; looks at `most` at the most. True if there are others
    /// to look at.
    pub(crate) fn sort(&mut self, shape: &Shape, most: usize) -> bool {
        if self.forks != FORKS.get() {
            self.forks = FORKS.get();
            self.note_unsorted();
        }
        for _ in 0..most {
            lock::step();
            let (follow, next) = self.unsorted;
            let list = WATCHED - follow;
            let Some(number) = next.checked_sub(1) else {
                if follow == 0 {
                    return false;
                }
                self.unsorted = (follow - 1, self.heads[list + 1]);
                continue;
            };
            let slab = slab::header(Granule(number));
            // Relaxed: under the cache's lock.
            self.unsorted.1 = slab.next.load(Ordering::Relaxed);
            if right_list(slab, shape) != list {
                self.move_slab(Granule(number), shape);
            }
        }
        true
    }

    /// The fullest slab that has a free object, or `None`.
    pub(crate) fn fullest(&mut self, shape: &Shape) -> Option<Granule> {
        self.fullest_known(shape).or_else(|| {
            self.sort(shape, MOVES);
            self.fullest_known(shape)
        })
    }

    /// A slab with free objects for a slot, which it serves from then on; `None` if a new one is
    /// better. It is the slot's own, one that serves none, or, if there are as many as slots, one
    /// of another slot in which most objects are free. With many slabs it is the fullest, and
    /// serves none. Looks at [`LOOKED_AT`] slabs of each list.
    pub(crate) fn for_slot(&mut self, slot: u16, shape: &Shape) -> Option<Granule> {
        // Moves slabs that are on a wrong list.
        let fullest = self.fullest(shape);
        if !self.serve_slots(shape) {
            slab::header(fullest?).serve(None);
            return fullest;
        }
        let own = self.current_of(slot).or_else(|| self.own_or_unused(slot));
        let granule = own.or_else(|| self.on_list(EMPTY).next().map(|(granule, _)| granule));
        let granule = granule.or_else(|| self.sparse_of_another())?;
        slab::header(granule).serve(Some(slot));
        self.current[usize::from(slot) % CURRENT] = granule.0 + 1;
        Some(granule)
    }

    /// Whether each slab serves one slot.
    pub(crate) fn serve_slots(&self, shape: &Shape) -> bool {
        let slabs = self.counts.slabs as usize;
        shape.shares_lines() && (slabs <= SLOT_SLABS || slabs <= SLOT_SLABS * slots_used())
    }

    fn current_of(&self, slot: u16) -> Option<Granule> {
        let granule = Granule(self.current[usize::from(slot) % CURRENT].checked_sub(1)?);
        let slab = slab::header(granule);
        (slab.slot() == Some(slot) && slab.has_free() && !slab.is_watched()).then_some(granule)
    }

    fn own_or_unused(&self, slot: u16) -> Option<Granule> {
        let mut unused = None;
        let mut in_use = (0..EMPTY).flat_map(|list| self.on_list(list).take(LOOKED_AT));
        let own = in_use.find(|(granule, slab)| {
            unused = unused.or(slab.slot().is_none().then_some(*granule));
            slab.slot() == Some(slot)
        });
        own.map(|(granule, _)| granule).or(unused)
    }

    /// Not the first of a list, which another slot has used last.
    fn sparse_of_another(&self) -> Option<Granule> {
        let last = |list| self.on_list(list).take(LOOKED_AT).last();
        let sparse = (SPARSE..EMPTY).rev().find_map(last)?;
        (self.counts.slabs as usize >= slots_used()).then_some(sparse.0)
    }

    /// All slabs of the lists up to [`EMPTY`] have free objects, also those on a wrong one.
    fn fullest_known(&mut self, shape: &Shape) -> Option<Granule> {
        let (mut list, mut moved, mut fullest) = (0, 0, None);
        while list <= EMPTY && moved < MOVES {
            let Some((granule, slab)) = self.on_list(list).next() else {
                list += 1;
                continue;
            };
            let right = right_list(slab, shape);
            if right <= list {
                return Some(granule);
            }
            self.move_slab(granule, shape);
            moved += 1;
            if right <= EMPTY && fullest.is_none_or(|(_, least)| right < least) {
                fullest = Some((granule, right));
            }
        }
        fullest.map(|(granule, _)| granule)
    }

    /// A watched slab that has a free object; made of one without allocated objects, if necessary
    /// and possible.
    pub(crate) fn watched(&mut self, shape: &Shape) -> Option<Granule> {
        if let Some((granule, _)) = self.on_list(WATCHED).next() {
            return Some(granule);
        }
        let (granule, _) = self.on_list(EMPTY).next()?;
        self.unlist(granule);
        slab::watch(granule, shape.granules);
        Some(granule)
    }

    /// Moves a slab to its right list.
    pub(crate) fn move_slab(&mut self, granule: Granule, shape: &Shape) {
        self.unlist(granule);
        self.list(granule, shape);
    }

    /// Puts a slab that is on no list on the right one.
    pub(crate) fn list(&mut self, granule: Granule, shape: &Shape) {
        let slab = slab::header(granule);
        let list = right_list(slab, shape);
        if list == EMPTY && slab.is_watched() {
            slab::unwatch(granule, shape.granules);
        }
        let head = self.heads[list];
        // Relaxed, all of this file: under the cache's lock.
        slab.next.store(head, Ordering::Relaxed);
        slab.previous.store(0, Ordering::Relaxed);
        match head.checked_sub(1) {
            Some(number) => {
                slab::header(Granule(number)).previous.store(granule.0 + 1, Ordering::Relaxed);
            }
            None if list == EMPTY => self.oldest_empty = granule.0 + 1,
            None => {}
        }
        self.heads[list] = granule.0 + 1;
        slab.list.store(list as u32, Ordering::Relaxed);
        if list == EMPTY && shape.typesafe {
            // All its objects were freed before: a reader that still has one is older than this
            // cookie.
            slab.cookie.store(Cookie::get().to_bits(), Ordering::Relaxed);
        }
        self.counts.empty += u32::from(list == EMPTY);
    }

    /// Removes a slab from its list.
    pub(crate) fn unlist(&mut self, granule: Granule) {
        let slab = slab::header(granule);
        // Relaxed, all: under the cache's lock.
        let list = slab.list.swap(UNLISTED, Ordering::Relaxed) as usize;
        if list == UNLISTED as usize {
            return;
        }
        let next = slab.next.load(Ordering::Relaxed);
        let previous = slab.previous.load(Ordering::Relaxed);
        if self.unsorted.1 == granule.0 + 1 {
            self.unsorted.1 = next;
        }
        match next.checked_sub(1) {
            Some(number) => {
                slab::header(Granule(number)).previous.store(previous, Ordering::Relaxed);
            }
            None if list == EMPTY => self.oldest_empty = previous,
            None => {}
        }
        match previous.checked_sub(1) {
            Some(number) => slab::header(Granule(number)).next.store(next, Ordering::Relaxed),
            None => self.heads[list] = next,
        }
        if list == EMPTY {
            // It may be about to be released.
            self.counts.empty -= 1;
            let is_this = |current: &&mut u32| **current == granule.0 + 1;
            self.current.iter_mut().filter(is_this).for_each(|current| *current = 0);
        }
    }

    /// A slab without allocated objects, if one is known. Of a cache with `typesafe_by_rcu` the one
    /// that has been empty longest, if its cookie has passed: otherwise none has, since cookies are
    /// taken in the order of the list.
    pub(crate) fn releasable(&self, shape: &Shape) -> Option<Granule> {
        if !shape.typesafe {
            return Some(Granule(self.heads[EMPTY].checked_sub(1)?));
        }
        let oldest = Granule(self.oldest_empty.checked_sub(1)?);
        // Relaxed: under the cache's lock.
        let cookie = Cookie::from_bits(slab::header(oldest).cookie.load(Ordering::Relaxed));
        cookie.has_passed().then_some(oldest)
    }

    /// Sum of the free objects of all slabs. Looks at all of them.
    pub(crate) fn free_objects(&self) -> usize {
        let slabs = (0..=WATCHED).flat_map(|list| self.all_on_list(list));
        // Relaxed: flushes may add meanwhile.
        slabs.map(|(_, slab)| slab.free.load(Ordering::Relaxed) as usize).sum()
    }
}

/// The list for a slab by its current fill.
fn right_list(slab: &Slab, shape: &Shape) -> usize {
    // Acquire pairs with the Release in `count_put`: a slab that counts as empty is empty.
    let free = slab.free.load(Ordering::Acquire) as usize;
    match free {
        free if free == shape.slab_objects => EMPTY,
        0 => FULL,
        _ if slab.is_watched() => WATCHED,
        free => free * EMPTY / shape.slab_objects,
    }
}

/// True when a slab is listed as one without free objects. Under the cache's lock.
pub(crate) fn is_listed_as_full(slab: &Slab) -> bool {
    // Relaxed: under the cache's lock.
    slab.list.load(Ordering::Relaxed) as usize == FULL
}

#[cfg(test)]
#[path = "../../tests/unit/slab_lists.rs"]
mod tests;
