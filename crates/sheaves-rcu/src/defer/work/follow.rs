//! What callbacks defer follows at once, but not for ever: callbacks that defer themselves again
//! and again would keep a CPU busy.
//!
//! Following may take [`BURST_NS`] at a stretch, which is enough for a list of a million nodes
//! beside threads that read, and a sixteenth of the time after that. [`PAID_NS`] is the time at
//! which what was spent is paid for: each nanosecond that is spent puts it off by [`SHARE`]. (This
//! is the virtual scheduling algorithm of ATM, ITU-T I.371.)

use core::sync::atomic::{AtomicU64, Ordering};

use crate::grace::period;

const SHARE: u64 = 16;
const BURST_NS: u64 = 20_000_000_000;
/// The time for which a runner follows before others get their turn: barriers, what is old, tools.
const TURN_NS: u64 = 1_000_000;
/// What a round costs that interrupts all CPUs, and what one costs that does not, about.
pub(crate) const FLUSH_NS: u64 = 1_000_000;
pub(crate) const ROUND_NS: u64 = 10_000;

static PAID_NS: AtomicU64 = AtomicU64::new(0);

/// True if callbacks may be followed. Otherwise what they defer waits for the age bound.
pub(crate) fn is_affordable() -> bool {
    // Relaxed: a policy. The clock is that of the last grace period, which has just passed.
    PAID_NS.load(Ordering::Relaxed) <= period::began_ns()
}

/// Notes time that was spent on following.
pub fn spend(nanoseconds: u64) {
    let (relaxed, now_ns) = (Ordering::Relaxed, period::began_ns());
    let later = |paid_ns| Some(paid_after(paid_ns, now_ns, nanoseconds));
    // Relaxed, both: a policy.
    let _before = PAID_NS.fetch_update(relaxed, relaxed, later);
}

fn paid_after(paid_ns: u64, now_ns: u64, spent_ns: u64) -> u64 {
    paid_ns.max(now_ns.saturating_sub(SHARE * BURST_NS)) + SHARE * spent_ns
}

/// The time that a runner follows; spent when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    begin_ns: u64,
    now_ns: u64,
}

impl Turn {
    pub(crate) fn has_begun(&self) -> bool {
        self.begin_ns != 0
    }

    /// Notes that a grace period was started for what follows; false if the turn is over. The time
    /// is that at which the last one began: mostly this one.
    pub(crate) fn goes_on(&mut self) -> bool {
        self.now_ns = period::began_ns();
        if self.begin_ns == 0 {
            self.begin_ns = self.now_ns;
        }
        self.now_ns.saturating_sub(self.begin_ns) < TURN_NS
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.has_begun() {
            spend(self.now_ns.saturating_sub(self.begin_ns) + ROUND_NS);
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/follow.rs"]
mod tests;
