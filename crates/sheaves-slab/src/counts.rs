//! What the slow paths of a cache count, in per-CPU memory.

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

/// Counts one event of the cache `$id`: a transaction on the current slot.
macro_rules! count {
    ($id:expr, $event:ident) => {
        if let Some(counts) = $id.counts() {
            counts.cell(sheaves_percpu::field!($crate::counts::Counts, $event)).add(1);
        }
    };
}

/// The sum of one kind of event of the cache `$id` over all slots.
macro_rules! counted {
    ($id:expr, $event:ident) => {
        $id.counts().map_or(0, |counts| {
            counts.cell(sheaves_percpu::field!($crate::counts::Counts, $event)).sum()
        })
    };
}

pub(crate) use {count, counted};

/// The counts of a new cache; `None` when there is no per-CPU memory, and then nothing is counted.
pub(crate) fn make() -> Option<PerCpu<Counts>> {
    PerCpu::zeroed().ok()
}
