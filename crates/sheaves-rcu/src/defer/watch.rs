//! What is run at this moment, and a report when that does not come to its end.
//!
//! Whoever runs calls notes each by two stores: the driver, and its workers. Whoever defers a full
//! buffer, or waits, looks: if the same call has been running for as long as a reader may
//! (`SHEAVES_RCU_STALL_MS`), one line names its function.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sheaves_sys::{clock, report};

use super::workers::WORKERS_MAX;
use crate::stall;

/// Numbers of those who run calls: the driver, and the first of the workers.
pub(super) const DRIVER: usize = 0;
pub(super) const WORKERS: usize = 1;

/// What one of them runs; on cache lines of its own.
#[repr(align(128))]
struct Runner {
    /// Address of the function that runs, 0 for none. Written by the runner.
    running: AtomicUsize,
    /// Calls that were begun. Written by the runner.
    calls: AtomicU64,
    /// The count that somebody saw, when that was for the first time, and the one last reported.
    seen: AtomicU64,
    seen_ms: AtomicU64,
    reported: AtomicU64,
}

static RUNNERS: [Runner; WORKERS + WORKERS_MAX] = [const {
    Runner {
        running: AtomicUsize::new(0),
        calls: AtomicU64::new(0),
        seen: AtomicU64::new(0),
        seen_ms: AtomicU64::new(0),
        reported: AtomicU64::new(0),
    }
}; WORKERS + WORKERS_MAX];

/// Notes that a function begins. For the runner.
#[inline]
pub(super) fn begin(runner: usize, function: usize) {
    let Runner { running, calls, .. } = &RUNNERS[runner];
    // Relaxed, all: written by the runner alone; who looks needs no order.
    calls.store(calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    running.store(function, Ordering::Relaxed);
}

/// Notes that nothing runs. For the runner.
pub(super) fn end(runner: usize) {
    // Relaxed: as in `begin`.
    RUNNERS[runner].running.store(0, Ordering::Relaxed);
}

/// Calls that were begun so far.
pub(super) fn calls() -> u64 {
    // Relaxed: statistics.
    RUNNERS.iter().map(|runner| runner.calls.load(Ordering::Relaxed)).sum()
}

/// Looks whether something runs for too long.
pub(super) fn look() {
    RUNNERS.iter().for_each(Runner::look);
}

impl Runner {
    fn look(&self) {
        // Relaxed, here and below: hints for a report; nothing is published through them.
        let function = self.running.load(Ordering::Relaxed);
        if function == 0 {
            return;
        }
        let (calls, now) = (self.calls.load(Ordering::Relaxed), clock::coarse_ms());
        if self.seen.swap(calls, Ordering::Relaxed) != calls {
            self.seen_ms.store(now, Ordering::Relaxed);
            return;
        }
        let timeout = stall::timeout_ms();
        let age_ms = now.saturating_sub(self.seen_ms.load(Ordering::Relaxed));
        let is_late = timeout != 0 && age_ms >= timeout;
        if is_late && self.reported.swap(calls, Ordering::Relaxed) != calls {
            report::report(format_args!(
                "rcu: deferred callback {function:#x} has been running for {age_ms} ms"
            ));
        }
    }
}
