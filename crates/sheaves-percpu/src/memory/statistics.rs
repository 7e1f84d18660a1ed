//! Statistics of per-CPU memory, for monitoring.

#[cfg(any(test, feature = "counters"))]
use crate::dynamic::Counters;
use crate::memory::state::MEMORY;
use crate::memory::{AllocatorStatistics, caches};
use crate::{rows, slots};

/// The state of per-CPU memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The allocator's statistics, which count cached objects as allocated. Bytes and pages are
    /// those of one slot.
    pub allocator: AllocatorStatistics,
    /// How much work the allocator has done.
    #[cfg(any(test, feature = "counters"))]
    pub counters: Counters,
    /// Bytes of free objects in the caches of all slots, in one slot's row.
    pub cached_bytes: usize,
    /// Bytes of the sheaves of all caches.
    pub sheaves_bytes: usize,
    /// Slots that threads have used.
    pub slots_used: usize,
    /// Committed bytes of each used slot's row.
    pub committed_bytes: usize,
    /// Bytes that each slot's row can grow to.
    pub row_bytes: usize,
}

/// Statistics of per-CPU memory; `None` before the first allocation. Takes locks for microseconds.
#[must_use]
pub fn statistics() -> Option<Statistics> {
    let cached_bytes = caches::cached_bytes();
    let mut memory = MEMORY.lock();
    let sheaves_bytes = memory.sheaves.bytes();
    let allocator = memory.allocator()?;
    Some(Statistics {
        allocator: allocator.statistics(),
        #[cfg(any(test, feature = "counters"))]
        counters: allocator.counters(),
        cached_bytes,
        sheaves_bytes,
        slots_used: slots::installed_indexes().count(),
        committed_bytes: rows::committed_bytes(),
        row_bytes: rows::row_bytes(),
    })
}
