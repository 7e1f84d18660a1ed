//! Statistics of per-CPU memory, for monitoring.

#[cfg(any(test, feature = "counters"))]
use crate::dynamic::Counters;
use crate::memory::AllocatorStatistics;
use crate::memory::state::MEMORY;
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
    let mut memory = MEMORY.lock();
    let allocator = memory.allocator()?;
    Some(Statistics {
        allocator: allocator.statistics(),
        #[cfg(any(test, feature = "counters"))]
        counters: allocator.counters(),
        slots_used: slots::installed_indexes().count(),
        committed_bytes: rows::committed_bytes(),
        row_bytes: rows::row_bytes(),
    })
}
