//! What the slow paths of a cache count, in per-CPU memory.

use core::mem::ManuallyDrop;
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use sheaves_percpu::{PerCpu, SlotCell, Zeroed};

/// One number for each kind of event, in every slot; see [`crate::stats::CacheStats`].
///
/// Refills from slabs and flushes to them, full sheaves from the depot, slabs made and released.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) refills: SlotCell<u64>,
    pub(crate) flushes: SlotCell<u64>,
    pub(crate) depot_hits: SlotCell<u64>,
    pub(crate) slabs_made: SlotCell<u64>,
    pub(crate) slabs_released: SlotCell<u64>,
}

// SAFETY: zero is a valid value of every field.
unsafe impl Zeroed for Counts {}

/// The counts of one cache number, as a number of their own, so that they come and go by one store:
/// 0 while there are none.
///
/// Who gives them back has taken them out before. Between the two they belong to that thread alone,
/// and in a child of a fork without handlers, where the thread is not there, to nobody: they are
/// never given back twice.
#[derive(Debug)]
pub(crate) struct CountsOwner(AtomicU32);

impl CountsOwner {
    pub(crate) const fn none() -> CountsOwner {
        CountsOwner(AtomicU32::new(0))
    }

    /// The counts while they are there; not to be dropped.
    #[inline]
    pub(crate) fn get(&self) -> Option<ManuallyDrop<PerCpu<Counts>>> {
        // Relaxed: the cache's user has its number by a way that is ordered after `make`.
        let number = NonZeroU32::new(self.0.load(Ordering::Relaxed))?;
        // SAFETY: from `into_raw` below; this one is not dropped.
        Some(ManuallyDrop::new(unsafe { PerCpu::from_raw(number) }))
    }

    /// Makes counts for a new cache; none when there is no per-CPU memory, and then nothing is
    /// counted. Under the registry lock.
    pub(crate) fn make(&self) {
        // Some are left where a child has lost the thread that was about to take them out.
        self.end();
        let made = PerCpu::<Counts>::zeroed().map_or(0, |counts| counts.into_raw().get());
        // Relaxed: published with the cache's number.
        self.0.store(made, Ordering::Relaxed);
    }

    /// Takes the counts out and gives them back. Under the registry lock.
    pub(crate) fn end(&self) {
        self.end_with(drop);
    }

    fn end_with(&self, give_back: impl FnOnce(PerCpu<Counts>)) {
        // Relaxed: for this thread and for what a fork leaves of it, which see the order below.
        let number = self.0.swap(0, Ordering::Relaxed);
        // SeqCst, for the compiler alone: taken out before they are given back.
        compiler_fence(Ordering::SeqCst);
        if let Some(number) = NonZeroU32::new(number) {
            // SAFETY: from `into_raw`, and out of its place, so that nobody else turns it back.
            give_back(unsafe { PerCpu::from_raw(number) });
        }
    }
}

/// Counts one event of the cache `$id`: a transaction on the current slot.
macro_rules! count {
    ($id:expr, $event:ident) => {
        if let Some(counts) = $id.descriptor().counts.get() {
            counts.cell(sheaves_percpu::field!($crate::counts::Counts, $event)).add(1);
        }
    };
}

/// The sum of one kind of event of the cache `$id` over all slots.
macro_rules! counted {
    ($id:expr, $event:ident) => {
        $id.descriptor().counts.get().map_or(0, |counts| {
            counts.cell(sheaves_percpu::field!($crate::counts::Counts, $event)).sum()
        })
    };
}

pub(crate) use {count, counted};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_out_of_their_place_before_they_are_given_back() {
        let owner = CountsOwner::none();
        owner.make();
        let mut was_there = true;
        owner.end_with(|counts| {
            was_there = owner.get().is_some();
            drop(counts);
        });
        assert!(!was_there, "a child that forks now gives them back a second time");
        owner.end_with(|_| panic!("given back twice"));
    }
}
