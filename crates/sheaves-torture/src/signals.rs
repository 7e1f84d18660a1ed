//! Signals, sent to the threads of a run at any instruction.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use crate::random::Random;
use crate::rounds::{Round, Rounds};

/// The threads to which signals are sent, and the threads that send.
pub(crate) struct Signals {
    /// Number of threads that send.
    disturbers: AtomicU64,
    /// Targets, by libc's `pthread_t`; they stay until no thread sends any more.
    targets: Mutex<Vec<usize>>,
}

impl Signals {
    pub(crate) const fn new() -> Signals {
        Signals { disturbers: AtomicU64::new(0), targets: Mutex::new(Vec::new()) }
    }

    /// Called before a run in which one thread sends; installs the handler.
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

    /// Adds the calling thread to the targets, until the run ends.
    pub(crate) fn be_target(&self) {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner).push(own_thread());
    }

    /// Makes the calling thread a target while it runs `body`, so that signals interrupt the first
    /// sections of a short thread.
    pub(crate) fn be_target_during(&self, body: impl FnOnce()) {
        self.be_target();
        body();
        let own = own_thread();
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.retain(|target| *target != own);
    }

    /// The loop of a thread that interrupts the others, in rounds of all threads.
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

    /// Sends a signal to about half of the targets.
    fn send(&self, random: &mut Random) {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        for target in targets.iter().filter(|_| random.one_in(2)) {
            // SAFETY: targets stay until no thread sends any more.
            unsafe { libc::pthread_kill(*target as libc::pthread_t, libc::SIGUSR2) };
        }
    }

    /// Called at the end of a target: waits until no thread sends signals any more.
    pub(crate) fn outlast(&self) {
        while self.disturbers.load(Ordering::Acquire) != 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The calling thread: `pthread_t` is a number in glibc, an address in musl.
fn own_thread() -> usize {
    // SAFETY: no precondition.
    unsafe { libc::pthread_self() as usize }
}
