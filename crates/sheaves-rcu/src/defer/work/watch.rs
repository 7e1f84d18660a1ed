//! Watches running callbacks, and reports those that run for too long.
//!
//! The driver and each worker note each callback by two stores. A thread that defers a full sheaf,
//! or waits, checks these notes. If a callback has run for `SHEAVES_RCU_STALL_MS`, one line names
//! its function.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use sheaves_sys::{clock, options, probe, report, restart_word};

/// How often a thread that waits for callbacks checks for a stalled one.
pub(crate) const CHECK_NS: u64 = 100_000_000;
/// The most workers: a shard of calls has one.
pub(crate) const WORKERS_MAX: usize = 16;
/// Indexes of the runners: the driver, and the first worker.
pub(crate) const DRIVER: usize = 0;
pub(crate) const WORKERS: usize = 1;
/// In place of a time.
const REPORTED: u64 = u64::MAX;

/// What one thread runs; on its own cache lines.
#[repr(align(128))]
struct Runner {
    /// Address of the function that runs, 0 for none. Written by the runner.
    running: AtomicUsize,
    /// Number of callbacks so far. Written by the runner.
    calls: AtomicU64,
    /// The count at the last check, and when it was first seen; [`REPORTED`] afterwards.
    seen: AtomicU64,
    seen_ms: AtomicU64,
}

static RUNNERS: [Runner; WORKERS + WORKERS_MAX] = [const {
    let [calls, seen, seen_ms] = [const { AtomicU64::new(0) }; 3];
    Runner { running: AtomicUsize::new(0), calls, seen, seen_ms }
}; WORKERS + WORKERS_MAX];

/// Notes that a callback begins. For the runner, like [`end`].
#[inline]
pub(crate) fn begin(runner: usize, function: usize) {
    let Runner { running, calls, .. } = &RUNNERS[runner];
    // Relaxed, all: only the runner writes them; a check needs no order.
    calls.store(calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    running.store(function, Ordering::Relaxed);
}

pub(crate) fn end(runner: usize) {
    // Relaxed: as in `begin`.
    RUNNERS[runner].running.store(0, Ordering::Relaxed);
}

/// In the child of a fork: the runner is not there.
pub(crate) fn end_in_child(runner: usize) {
    restart_word!(RUNNERS[runner].running, 0);
}

pub(crate) fn calls() -> u64 {
    // Relaxed: statistics.
    RUNNERS.iter().map(|runner| runner.calls.load(Ordering::Relaxed)).sum()
}

pub(crate) fn report_stalled() {
    RUNNERS.iter().for_each(Runner::report_stalled);
}

impl Runner {
    fn report_stalled(&self) {
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
        let timeout = options::RCU_STALL_MS.get();
        let age_ms = now.saturating_sub(self.seen_ms.load(Ordering::Relaxed));
        let is_late = timeout != 0 && age_ms >= timeout;
        if is_late && self.seen_ms.swap(REPORTED, Ordering::Relaxed) != REPORTED {
            probe::callback_stall(function, age_ms as usize);
            report::report(format_args!(
                "rcu: deferred callback {function:#x} has been running for {age_ms} ms"
            ));
        }
    }
}
