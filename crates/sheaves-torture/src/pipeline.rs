//! A clock made of grace periods: structures of ten generations, and readers that check their age.
//!
//! One item is current. When it is replaced its age becomes 1. Each grace period after that adds 1,
//! until the item is reused at age 10. A reader that finds its item older than 1 has lasted for a
//! whole grace period, so the grace period was wrong. The form is that of the kernel's rcutorture.
//!
//! | age of an item | meaning | transitions |
//! |---|---|---|
//! | 0 | current | -> 1 by [`Pipeline::replace`] |
//! | 1 | replaced; readers may have it | -> 2 by [`Pipeline::grow`], after a grace period |
//! | 2..10 | no reader may have it | -> one more, the same way |
//! | 10 | free | -> 0 by [`Pipeline::replace`] |
//!
//! One thread replaces and grows; any number of threads and handlers read.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Grace periods until an item is reused.
pub(crate) const GENERATIONS: u64 = 10;
/// The age that readers may see.
pub(crate) const AGE_ALLOWED: u64 = 1;
/// Items of a pipeline: each generation may hold a few when many are in progress.
const ITEMS: usize = 32;

/// The structures that one updater replaces.
pub(crate) struct Pipeline {
    current: AtomicUsize,
    ages: [AtomicU64; ITEMS],
}

/// The item that a reader has found at its begin.
#[derive(Clone, Copy)]
pub(crate) struct Item(usize);

impl Pipeline {
    pub(crate) const fn new() -> Pipeline {
        Pipeline {
            current: AtomicUsize::new(0),
            ages: [const { AtomicU64::new(GENERATIONS) }; ITEMS],
        }
    }

    /// Before a run: one item is current, the others are free.
    pub(crate) fn reset(&self) {
        self.ages.iter().for_each(|age| age.store(GENERATIONS, Ordering::Relaxed));
        self.ages[0].store(0, Ordering::Relaxed);
        self.current.store(0, Ordering::Release);
    }

    /// The current item, for a reader inside its section. Async-signal-safe, like
    /// [`Pipeline::age`].
    pub(crate) fn find(&self) -> Item {
        Item(self.current.load(Ordering::Acquire))
    }

    /// The age of an item.
    pub(crate) fn age(&self, item: Item) -> u64 {
        self.ages[item.0].load(Ordering::Relaxed)
    }

    /// Replaces the current item by a free one and returns the old one; `None` when all are in
    /// progress.
    pub(crate) fn replace(&self) -> Option<Item> {
        let is_free = |item: &usize| self.ages[*item].load(Ordering::Relaxed) >= GENERATIONS;
        let new = (0..ITEMS).find(is_free)?;
        self.ages[new].store(0, Ordering::Relaxed);
        let old = self.current.swap(new, Ordering::AcqRel);
        self.ages[old].store(1, Ordering::Relaxed);
        Some(Item(old))
    }

    /// Adds 1 to the age, after a grace period that began after the item's last change. True when
    /// the item is free.
    pub(crate) fn grow(&self, item: Item) -> bool {
        let age = self.ages[item.0].load(Ordering::Relaxed) + 1;
        self.ages[item.0].store(age, Ordering::Relaxed);
        age >= GENERATIONS
    }
}

#[cfg(test)]
#[path = "../tests/unit/pipeline.rs"]
mod tests;
