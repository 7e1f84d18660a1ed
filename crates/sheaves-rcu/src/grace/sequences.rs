//! When the last sequences began: for reports of how long a read section has been open.

use core::sync::atomic::{AtomicU64, Ordering};

use sheaves_sys::clock;

use crate::protocol::reader::STEP;
use crate::reader::section::GLOBAL;

/// More than the sequences that an open section can be behind.
const KEPT: usize = 8;

/// Times in nanoseconds; 0 if unknown.
static BEGAN_NS: [AtomicU64; KEPT] = [const { AtomicU64::new(0) }; KEPT];

/// Notes that a sequence begins now. For the leader, before it does.
pub(super) fn note(sequence: u64) {
    // Relaxed: for a report.
    BEGAN_NS[sequence as usize % KEPT].store(clock::fine_ns(), Ordering::Relaxed);
}

/// When one of the last sequences began; `None` if that is not known, or it has not. Async-signal-
/// safe.
pub(super) fn began_ns(sequence: u64) -> Option<u64> {
    // Relaxed, both: for a report.
    let has_begun = sequence <= GLOBAL.0.load(Ordering::Relaxed) / STEP;
    let began = BEGAN_NS[sequence as usize % KEPT].load(Ordering::Relaxed);
    (has_begun && began != 0).then_some(began)
}
