//! How long single calls took, and the figures of that.

use core::time::Duration;

use hdrhistogram::Histogram;

use crate::harness::{Measure, time_of};

/// What is told of the calls of a row, in the order of [`Times::figures`].
pub(super) const MEASURES: [Measure; 4] = [
    Measure("", "ns/op", "longest, us", 1e3),
    Measure("-p9999", "ns/op", "p99.99, us", 1e3),
    Measure("-p99", "ns/op", "p99, us", 1e3),
    Measure("-p50", "ns/op", "p50, us", 1e3),
];
const QUANTILES: [f64; 3] = [0.9999, 0.99, 0.5];

#[derive(Clone, Copy, Debug)]
pub(super) enum Clock {
    /// CPU time of the thread.
    Cpu,
    /// For calls that may wait.
    Wall,
}

impl Clock {
    pub(super) fn now(self) -> Duration {
        time_of(match self {
            Clock::Cpu => libc::CLOCK_THREAD_CPUTIME_ID,
            Clock::Wall => libc::CLOCK_MONOTONIC,
        })
    }
}

/// How long the calls of one kind took.
#[derive(Debug)]
pub(super) struct Times {
    clock: Clock,
    nanoseconds: Histogram<u64>,
}

impl Times {
    pub(super) fn new(clock: Clock) -> Times {
        Times { clock, nanoseconds: Histogram::new(3).expect("three digits are supported") }
    }

    #[inline]
    pub(super) fn time<R>(&mut self, call: impl FnOnce() -> R) -> R {
        let begin = self.now();
        let result = call();
        self.note_since(begin);
        result
    }

    /// The time by the clock of these calls.
    #[inline]
    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Notes a call that began then, and returns when it ended.
    #[inline]
    pub(super) fn note_since(&mut self, begin: Duration) -> Duration {
        let now = self.now();
        let nanoseconds = now.saturating_sub(begin).as_nanos() as u64;
        self.nanoseconds.record(nanoseconds).expect("the histogram grows");
        now
    }

    pub(super) fn count(&self) -> u64 {
        self.nanoseconds.len()
    }

    /// As [`MEASURES`] says. A percentile of too few calls would be their longest: NaN, as without
    /// any call.
    pub(super) fn figures(&self) -> [f64; MEASURES.len()] {
        let count = self.count();
        let longest = if count == 0 { f64::NAN } else { self.nanoseconds.max() as f64 };
        let [p9999, p99, p50] = QUANTILES.map(|quantile| {
            let is_known = count as f64 * (1.0 - quantile) >= 1.0 - 1e-6;
            if is_known { self.nanoseconds.value_at_quantile(quantile) as f64 } else { f64::NAN }
        });
        [longest, p9999, p99, p50]
    }
}
