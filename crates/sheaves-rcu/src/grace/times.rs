//! How long grace periods took, and when the sequences of readers began: for reports.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_sys::clock;

use crate::protocol::reader::STEP;
use crate::reader::section::GLOBAL;

/// Number of classes: the last one has all that took 2^30 microseconds or more, 18 minutes.
pub(crate) const LENGTHS: usize = 32;
/// More than the sequences that an open section can be behind.
const SEQUENCES: usize = 8;

/// Class 0 has what took less than a microsecond, class n what took less than 2^n microseconds.
/// Written by leaders, like the rest.
static COUNTS: [AtomicU64; LENGTHS] = [const { AtomicU64::new(0) }; LENGTHS];
static TOTAL_NS: AtomicU64 = AtomicU64::new(0);
/// When the last sequences began, in nanoseconds; 0 if unknown.
static BEGAN_NS: [AtomicU64; SEQUENCES] = [const { AtomicU64::new(0) }; SEQUENCES];

/// Counts a grace period. For the leader.
pub(super) fn count(nanoseconds: u64) {
    let class = (u64::BITS - (nanoseconds / 1000).leading_zeros()) as usize;
    // Relaxed, all: only the leader writes, and passes it on with the lead.
    for (count, more) in [(&TOTAL_NS, nanoseconds), (&COUNTS[class.min(LENGTHS - 1)], 1)] {
        count.store(count.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }
}

pub(super) fn lengths() -> ([u64; LENGTHS], u64) {
    // Relaxed, both: for a report.
    let counts = COUNTS.each_ref().map(|count| count.load(Ordering::Relaxed));
    (counts, TOTAL_NS.load(Ordering::Relaxed))
}

/// Notes that a sequence begins now. For the leader, before it does.
pub(super) fn note_sequence(sequence: u64) {
    // Relaxed: for a report.
    BEGAN_NS[sequence as usize % SEQUENCES].store(clock::fine_ns(), Ordering::Relaxed);
}

/// When one of the last sequences began; `None` if that is not known, or it has not.
/// Async-signal-safe.
pub(super) fn began_ns(sequence: u64) -> Option<u64> {
    // Relaxed, both: for a report.
    let has_begun = sequence <= GLOBAL.0.load(Ordering::Relaxed) / STEP;
    let began = BEGAN_NS[sequence as usize % SEQUENCES].load(Ordering::Relaxed);
    (has_begun && began != 0).then_some(began)
}
