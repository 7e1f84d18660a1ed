//! A substitute for membarrier: a fence in every thread, at a point between two of its steps.
//!
//! The caller announces a request. A thread that sees the request at the end of a step passes a
//! fence and stores that it has; a thread that ends stores that for good. Loom decides when a
//! request is seen: it is read without ordering, so it may be seen late, but not after the thread's
//! end.

use std::vec::Vec;

use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread;

/// The state of one thread that can be fenced.
pub(super) struct Interrupt {
    /// Number of fences that were requested.
    asked: AtomicUsize,
    /// Number of the last request that was fulfilled; [`GONE`] at the end.
    passed: AtomicUsize,
}

const GONE: usize = usize::MAX;

impl Interrupt {
    pub(super) fn new() -> Interrupt {
        Interrupt { asked: AtomicUsize::new(0), passed: AtomicUsize::new(0) }
    }

    /// To be called between two steps of the thread.
    pub(super) fn step(&self) {
        let asked = self.asked.load(Ordering::Relaxed);
        if asked != self.passed.load(Ordering::Relaxed) {
            fence(Ordering::SeqCst);
            self.passed.store(asked, Ordering::Relaxed);
        }
    }

    /// The thread's last step: a thread that is switched out passes a fence.
    pub(super) fn end(&self) {
        fence(Ordering::SeqCst);
        self.passed.store(GONE, Ordering::Relaxed);
    }

    /// Returns when every one of the threads has passed a fence since the call.
    pub(super) fn membarrier(threads: &[&Interrupt]) {
        fence(Ordering::SeqCst);
        let asked: Vec<usize> =
            threads.iter().map(|thread| thread.asked.fetch_add(1, Ordering::Relaxed) + 1).collect();
        for (thread, asked) in threads.iter().zip(asked) {
            while thread.passed.load(Ordering::Relaxed) < asked {
                thread::yield_now();
            }
        }
        fence(Ordering::SeqCst);
    }
}
