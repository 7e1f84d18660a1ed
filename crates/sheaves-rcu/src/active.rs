//! Which threads a grace period has to look at.
//!
//! A large program has thousands of threads that have read once, and few that read now. The words
//! of the others say [`FENCED`]: whoever finds that need not look again before the thread begins a
//! section, and that one is slow anyway. So the thread says then that it is back, by a bit, and
//! leaders look at the threads whose bit is set. A grace period costs a load for 64 idle threads.
//!
//! | bit | meaning | transitions |
//! |---|---|---|
//! | 0 | idle, see below | -> 1 by the thread, in a section that fences |
//! | 1 | to be looked at | -> 0 by the leader, where the word is [`FENCED`] |
//!
//! The thread changes its word, passes a fence, and looks at its bit. The leader clears the bit,
//! passes a fence, and looks at the word again. So one of them finds what the other has done, and
//! sets the bit: it is 0 only where the thread's word is [`FENCED`], or where the thread is still
//! on its way to set it. After that it passes another fence, before it reads anything. A leader
//! that finds 0 after the fence with which its grace period began has passed that one before, so
//! the section reads what updaters left, and need not be waited for. Modelled in `models`.
//!
//! Leaders clear bits where many threads are idle: where few are, it is cheaper to look at them
//! than to have each of them come back.

#[cfg(not(loom))]
use core::sync::atomic::AtomicU32;

use sheaves_sys::atomic::{AtomicU64, Ordering, fence};

use crate::word::FENCED;

/// Threads for which there is one word of bits.
#[cfg(not(loom))]
pub(crate) const THREADS: u32 = u64::BITS;
/// Idle threads that a leader looks at in vain.
#[cfg(not(loom))]
static IDLE_MAX: AtomicU32 = AtomicU32::new(64);

/// Are these so many idle threads that it pays to clear their bits? For the leader.
#[cfg(not(loom))]
pub(crate) fn are_many(idle: u32) -> bool {
    // Relaxed: a number that tests change.
    idle > IDLE_MAX.load(Ordering::Relaxed)
}

/// For tests: a single idle thread counts as many, so that threads come back all the time.
#[cfg(not(loom))]
#[doc(hidden)]
pub fn rest_early() {
    // Relaxed: as above.
    IDLE_MAX.store(0, Ordering::Relaxed);
}

/// The bits of 64 threads. Zero is valid: all are idle.
#[repr(transparent)]
pub(crate) struct Active(AtomicU64);

impl Active {
    #[cfg(loom)]
    pub(crate) fn new(bits: u64) -> Active {
        Active(AtomicU64::new(bits))
    }

    /// For models of what is wrong.
    #[cfg(loom)]
    pub(crate) fn bits(&self) -> &AtomicU64 {
        &self.0
    }

    /// Sees to it that leaders look at a thread. For that thread, after it has changed its word and
    /// passed a fence, which pairs with the one in [`Active::rest`]. Async-signal-safe.
    pub(crate) fn come_back(&self, number: u32) {
        let bit = 1 << number;
        // Relaxed: the fence before it orders. [R8]
        if self.0.load(Ordering::Relaxed) & bit == 0 {
            // Relaxed: the fence below orders.
            self.0.fetch_or(bit, Ordering::Relaxed);
            // SeqCst pairs with the fence in `Generations::begin`: the leader finds the bit, or
            // the section reads what updaters left. [R8]
            fence(Ordering::SeqCst);
        }
    }

    /// The threads to look at. For the leader, after the fence of `Generations::begin`.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        // Relaxed: that fence pairs with the one in `come_back`. [R8]
        numbers(self.0.load(Ordering::Relaxed))
    }

    /// Has nobody look any more at threads that are idle. For the leader.
    pub(crate) fn rest(&self, word: impl Fn(u32) -> u64) {
        let idle = |number: &u32| word(*number) == FENCED;
        let resting = bits(self.numbers().filter(idle));
        if resting == 0 {
            return;
        }
        // Relaxed: the fence below orders.
        self.0.fetch_and(!resting, Ordering::Relaxed);
        // SeqCst pairs with the fence before `come_back`: we find the word changed, or the thread
        // its bit cleared. [R8]
        fence(Ordering::SeqCst);
        let back = bits(numbers(resting).filter(|number| !idle(number)));
        if back != 0 {
            // Relaxed: leaders alone read it for what it says.
            self.0.fetch_or(back, Ordering::Relaxed);
        }
    }
}

/// The places of the bits that are set.
fn numbers(mut bits: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        let number = bits.trailing_zeros();
        bits &= bits.wrapping_sub(1);
        (number < u64::BITS).then_some(number)
    })
}

fn bits(numbers: impl Iterator<Item = u32>) -> u64 {
    numbers.fold(0, |bits, number| bits | 1 << number)
}
