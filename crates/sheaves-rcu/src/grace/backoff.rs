//! How a leader waits for readers: it spins, then sleeps for an eighth of the period's age at most.

use sheaves_sys::{clock, request};

use super::stall::Stall;

/// Shortest and longest sleep of the leader.
const NAP_NS: u64 = 10_000;
pub(super) const NAP_NS_MAX: u64 = 1_000_000;

pub(super) struct Backoff {
    began_ns: u64,
    rounds: u32,
}

impl Backoff {
    pub(super) fn new(began_ns: u64) -> Backoff {
        Backoff { began_ns, rounds: 0 }
    }

    /// One round. Before it sleeps it calls `check` with the age, whose result it returns, and it
    /// answers tools, which may ask just because no grace period ends.
    pub(super) fn once(
        &mut self,
        spins: u32,
        check: impl FnOnce(u64) -> Option<Stall>,
        sleep: impl FnOnce(u64),
    ) -> Option<Stall> {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds < spins {
            core::hint::spin_loop();
            return None;
        }
        let age_ns = clock::fine_ns().saturating_sub(self.began_ns);
        let stall = check(age_ns);
        request::answer();
        sleep((age_ns / 8).clamp(NAP_NS, NAP_NS_MAX));
        stall
    }
}
