//! How long grace periods were under way: a histogram, for reports.

use core::sync::atomic::{AtomicU64, Ordering};

/// Number of classes: the last one has all that took half an hour or more.
pub(crate) const LENGTHS: usize = 32;

/// Class 0 has what took less than a microsecond, class n what took less than 2^n microseconds.
/// Written by leaders.
static COUNTS: [AtomicU64; LENGTHS] = [const { AtomicU64::new(0) }; LENGTHS];

/// The time of all of them. Written by leaders.
static TOTAL_NS: AtomicU64 = AtomicU64::new(0);

/// Counts a grace period. For the leader.
pub(crate) fn count(nanoseconds: u64) {
    let class = (u64::BITS - (nanoseconds / 1000).leading_zeros()) as usize;
    let count = &COUNTS[class.min(LENGTHS - 1)];
    // Relaxed, all: only the leader writes, and passes it on with the lead.
    TOTAL_NS.store(TOTAL_NS.load(Ordering::Relaxed) + nanoseconds, Ordering::Relaxed);
    count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

pub(crate) fn total_ns() -> u64 {
    // Relaxed: statistics.
    TOTAL_NS.load(Ordering::Relaxed)
}

pub(crate) fn counts() -> [u64; LENGTHS] {
    // Relaxed: statistics.
    COUNTS.each_ref().map(|count| count.load(Ordering::Relaxed))
}
