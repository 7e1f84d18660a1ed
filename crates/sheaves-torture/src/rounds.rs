//! Who takes part at a time: mistakes of different kinds show in different company.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::time::Instant;

/// Rounds come in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Round {
    /// Everybody.
    Crowd = 0,
    /// Readers and updaters, undisturbed.
    Few = 1,
    /// One beside one other, each with a processor of its own: single steps overlap.
    Duel = 2,
}

/// Rounds in the order in which they come, with their milliseconds.
const ROUNDS: [(Round, u64); 3] = [(Round::Crowd, 400), (Round::Few, 150), (Round::Duel, 150)];

/// Which round there is, until the run ends.
pub(crate) struct Rounds {
    stop: AtomicBool,
    round: AtomicU64,
}

impl Rounds {
    pub(crate) const fn new() -> Rounds {
        Rounds { stop: AtomicBool::new(false), round: AtomicU64::new(Round::Crowd as u64) }
    }

    /// Before a run.
    pub(crate) fn reset(&self) {
        self.round.store(Round::Crowd as u64, Ordering::SeqCst);
        self.stop.store(false, Ordering::SeqCst);
    }

    /// Lets rounds come in turn for that time, or until something is found; then all threads stop.
    /// How many seconds that took.
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

    /// Is it the turn of those who take part up to a round? If not, some time passes.
    pub(crate) fn is_turn(&self, last: Round) -> bool {
        let is_turn = self.round.load(Ordering::Relaxed) <= last as u64;
        if !is_turn {
            // Or nobody would ever be spared a membarrier.
            sheaves_rcu::enter_idle();
            std::thread::sleep(Duration::from_millis(1));
        }
        is_turn
    }

    /// Is this the round of one against one?
    pub(crate) fn is_duel(&self) -> bool {
        self.round.load(Ordering::Relaxed) == Round::Duel as u64
    }
}
