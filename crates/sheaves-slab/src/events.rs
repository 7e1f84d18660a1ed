//! Counters of a cache's slow paths, in per-CPU memory.

use core::mem::ManuallyDrop;
use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use sheaves_percpu::{PerCpu, SlotCell, Zeroed};

/// One counter for each kind of event, in every slot; see [`crate::stats::CacheStats`].
///
/// Refills from slabs, flushes to slabs, full sheaves from the depot, slabs created and released.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) refills: SlotCell<u64>,
    pub(crate) flushes: SlotCell<u64>,
    pub(crate) depot_hits: SlotCell<u64>,
    pub(crate) slabs_made: SlotCell<u64>,
    pub(crate) slabs_released: SlotCell<u64>,
}

// SAFETY: zero is a valid value of every field.
unsafe impl Zeroed for Counters {}

/// The counters of one cache number, stored as the raw number of their [`PerCpu`], so that one
/// store creates or removes them: 0 while there are none.
///
/// A thread takes them out of this place before it frees them. Between the two steps only that
/// thread owns them. In a child of a fork without handlers, which does not have the thread, they
/// have no owner, and so they are never freed twice.
#[derive(Debug)]
pub(crate) struct Events(AtomicU32);

impl Events {
    pub(crate) const fn none() -> Events {
        Events(AtomicU32::new(0))
    }

    /// The counters, if any; not to be dropped.
    #[inline]
    pub(crate) fn get(&self) -> Option<ManuallyDrop<PerCpu<Counters>>> {
        // Relaxed: the cache's user has its number by a path that is ordered after `make`.
        let number = NonZeroU32::new(self.0.load(Ordering::Relaxed))?;
        // SAFETY: from `into_raw` below; this one is not dropped.
        Some(ManuallyDrop::new(unsafe { PerCpu::from_raw(number) }))
    }

    /// Allocates counters for a new cache. Without per-CPU memory there are none, and nothing is
    /// counted. Under the registry lock.
    pub(crate) fn make(&self) {
        // Some are left where a child does not have the thread that was about to take them out.
        self.end();
        let made = PerCpu::<Counters>::zeroed().map_or(0, |events| events.into_raw().get());
        // Relaxed: published with the cache's number.
        self.0.store(made, Ordering::Relaxed);
    }

    /// Takes the counters out and frees them. Under the registry lock.
    pub(crate) fn end(&self) {
        self.end_with(drop);
    }

    fn end_with(&self, give_back: impl FnOnce(PerCpu<Counters>)) {
        // Relaxed: read by this thread, and by its copy in a child of a fork, which see the order
        // below.
        let number = self.0.swap(0, Ordering::Relaxed);
        // SeqCst, for the compiler alone: taken out before they are freed.
        compiler_fence(Ordering::SeqCst);
        if let Some(number) = NonZeroU32::new(number) {
            // SAFETY: from `into_raw`, and taken out of its place, so that nothing else converts it
            // back.
            give_back(unsafe { PerCpu::from_raw(number) });
        }
    }
}

/// Counts one event of the cache `$id`: a transaction on the current slot.
macro_rules! count {
    ($id:expr, $event:ident) => {
        if let Some(events) = $id.descriptor().events.get() {
            events.cell(sheaves_percpu::field!($crate::events::Counters, $event)).add(1);
        }
    };
}

/// The sum of one kind of event of the cache `$id` over all slots.
macro_rules! counted {
    ($id:expr, $event:ident) => {
        $id.descriptor().events.get().map_or(0, |events| {
            events.cell(sheaves_percpu::field!($crate::events::Counters, $event)).sum()
        })
    };
}

pub(crate) use {count, counted};

#[cfg(test)]
#[path = "../tests/unit/events.rs"]
mod tests;
