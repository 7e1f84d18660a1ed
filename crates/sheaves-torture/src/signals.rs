//! Signals, sent to the threads of a run at any instruction.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use crate::random::Random;
use crate::rounds::{Round, Rounds};

/// Whom signals are sent to, and who sends them.
pub(crate) struct Signals {
    /// Threads that send.
    disturbers: AtomicU64,
    /// They stay until nobody sends any more.
    targets: Mutex<Vec<libc::pthread_t>>,
}

impl Signals {
    pub(crate) const fn new() -> Signals {
        Signals { disturbers: AtomicU64::new(0), targets: Mutex::new(Vec::new()) }
    }

    /// Before a run in which one thread sends; has the handler called from now on.
    pub(crate) fn reset(&self, handler: extern "C" fn(libc::c_int)) {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.disturbers.store(1, Ordering::Release);
        // SAFETY: an all-zero action is valid to be filled.
        let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the handlers of runs are async-signal-safe.
        unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, core::ptr::null_mut()) };
    }

    /// Makes the calling thread one that signals are sent to, until the run ends.
    pub(crate) fn be_target(&self) {
        // SAFETY: no precondition.
        let thread = unsafe { libc::pthread_self() };
        self.targets.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }

    /// Makes the calling thread such a one while it runs `body`: so the first sections of a short
    /// thread are interrupted.
    pub(crate) fn be_target_during(&self, body: impl FnOnce()) {
        self.be_target();
        body();
        // SAFETY: no precondition.
        let own = unsafe { libc::pthread_self() };
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.retain(|target| *target != own);
    }

    /// A thread that interrupts the others, while it is everybody's turn.
    pub(crate) fn disturb(&self, rounds: &Rounds) {
        let mut random = Random::new();
        while !rounds.is_stopped() {
            if rounds.is_turn(Round::Crowd) {
                self.send(&mut random);
            }
            std::thread::sleep(Duration::from_micros(100 + random.below(400)));
        }
        self.disturbers.fetch_sub(1, Ordering::Release);
    }

    /// Sends a signal to about half of them.
    fn send(&self, random: &mut Random) {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        for target in targets.iter().filter(|_| random.one_in(2)) {
            // SAFETY: targets stay until nobody disturbs any more.
            unsafe { libc::pthread_kill(*target, libc::SIGUSR2) };
        }
    }

    /// At the end of a target: waits until nobody sends signals any more.
    pub(crate) fn outlast(&self) {
        while self.disturbers.load(Ordering::Acquire) != 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
