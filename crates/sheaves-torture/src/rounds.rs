//! The threads that take part at a time: different errors show in different combinations.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

/// Rounds follow each other in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Round {
    /// All threads.
    Crowd = 0,
    /// Readers and updaters, without signals.
    Few = 1,
    /// One thread against one other, each with a CPU of its own: single steps overlap.
    Duel = 2,
}

/// The order of the rounds, with their milliseconds.
const ROUNDS: [(Round, u64); 3] = [(Round::Crowd, 400), (Round::Few, 150), (Round::Duel, 150)];

/// The current round, until the run ends.
pub(crate) struct Rounds {
    stop: AtomicBool,
    round: AtomicU64,
}

impl Rounds {
    pub(crate) const fn new() -> Rounds {
        Rounds { stop: AtomicBool::new(false), round: AtomicU64::new(Round::Crowd as u64) }
    }

    /// Called before a run.
    pub(crate) fn reset(&self) {
        self.round.store(Round::Crowd as u64, Ordering::SeqCst);
        self.stop.store(false, Ordering::SeqCst);
    }

    /// Changes rounds in turn for that time, or until `is_found`; then all threads stop. Returns
    /// how many seconds that took.
    pub(crate) fn go_on(&self, duration: Duration, is_found: impl Fn() -> bool) -> f64 {
        let begin = Instant::now();
        let is_over = || begin.elapsed() >= duration || is_found();
        for (round, milliseconds) in ROUNDS.into_iter().cycle() {
            self.round.store(round as u64, Ordering::Relaxed);
            let end = Instant::now() + Duration::from_millis(milliseconds);
            while Instant::now() < end && !is_over() {
                std::thread::sleep(Duration::from_millis(5));
            }
            if is_over() {
                break;
            }
        }
        let seconds = begin.elapsed().as_secs_f64();
        self.stop.store(true, Ordering::SeqCst);
        seconds
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// True when the caller takes part in the current round; `last` is the last round in which it
    /// does. Otherwise this sleeps for a moment.
    pub(crate) fn is_turn(&self, last: Round) -> bool {
        let is_turn = self.round.load(Ordering::Relaxed) <= last as u64;
        if !is_turn {
            // Otherwise every grace period would need a membarrier for this thread.
            sheaves_rcu::enter_idle();
            std::thread::sleep(Duration::from_millis(1));
        }
        is_turn
    }

    /// True in the round of one against one.
    pub(crate) fn is_duel(&self) -> bool {
        self.round.load(Ordering::Relaxed) == Round::Duel as u64
    }
}
