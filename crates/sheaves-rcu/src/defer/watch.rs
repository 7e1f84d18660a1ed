//! What the driver runs at this moment, and a report when that does not come to its end.
//!
//! The driver notes each call by two stores. Whoever defers a full buffer, or waits, looks: if the
//! same call has been running for as long as a reader may (`SHEAVES_RCU_STALL_MS`), one line names
//! its function.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sheaves_sys::{clock, report};

use crate::stall;

/// Address of the function that runs, 0 for none. Written by the driver.
static RUNNING: AtomicUsize = AtomicUsize::new(0);
/// Calls that were begun. Written by the driver.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// The count that somebody saw, when that was for the first time, and the one last reported.
static SEEN: AtomicU64 = AtomicU64::new(0);
static SEEN_MS: AtomicU64 = AtomicU64::new(0);
static REPORTED: AtomicU64 = AtomicU64::new(0);

/// Notes that a function begins. For the driver.
#[inline]
pub(super) fn begin(function: usize) {
    // Relaxed, all: written by the driver alone; who looks needs no order.
    CALLS.store(CALLS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    RUNNING.store(function, Ordering::Relaxed);
}

/// Notes that nothing runs. For the driver.
pub(super) fn end() {
    // Relaxed: as in `begin`.
    RUNNING.store(0, Ordering::Relaxed);
}

/// Calls that were begun so far.
pub(super) fn calls() -> u64 {
    // Relaxed: statistics.
    CALLS.load(Ordering::Relaxed)
}

/// Looks whether something runs for too long.
pub(super) fn look() {
    // Relaxed, here and below: hints for a report; nothing is published through them.
    let function = RUNNING.load(Ordering::Relaxed);
    if function == 0 {
        return;
    }
    let (calls, now) = (calls(), clock::coarse_ms());
    if SEEN.swap(calls, Ordering::Relaxed) != calls {
        SEEN_MS.store(now, Ordering::Relaxed);
        return;
    }
    let timeout = stall::timeout_ms();
    let age_ms = now.saturating_sub(SEEN_MS.load(Ordering::Relaxed));
    if timeout != 0 && age_ms >= timeout && REPORTED.swap(calls, Ordering::Relaxed) != calls {
        report::report(format_args!(
            "rcu: the deferred call of function {function:#x} runs since more than {age_ms} ms"
        ));
    }
}
