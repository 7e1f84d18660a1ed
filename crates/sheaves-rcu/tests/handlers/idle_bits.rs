//! A broken variant: readers as they once were, with a bit that spared leaders the idle ones.
//!
//! An outermost section stored its word, fenced, and then set its thread's bit where that was
//! clear. A section of a handler in between found the word, counted itself, and set no bit. Leaders
//! that found the bit clear took the thread for idle.

use core::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

use crate::objects::Waiting;

const FENCED: u64 = 1 << 15;
const READING: u64 = 1;

static WORD: AtomicU64 = AtomicU64::new(FENCED);
static NESTED: AtomicU64 = AtomicU64::new(0);
static ACTIVE: AtomicU64 = AtomicU64::new(0);

pub(crate) const WAITING: Waiting = Waiting { ask: || 0, poll: |_| is_idle() };

/// The thread has not read for a while.
pub(crate) fn rest() {
    ACTIVE.store(0, Ordering::SeqCst);
}

#[inline(never)]
pub(crate) fn enter() {
    if WORD.load(Ordering::Relaxed) & READING != 0 {
        NESTED.store(NESTED.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    } else {
        WORD.store(FENCED | READING, Ordering::Release);
        fence(Ordering::SeqCst);
        if ACTIVE.load(Ordering::Relaxed) == 0 {
            ACTIVE.fetch_or(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
    }
    compiler_fence(Ordering::SeqCst);
}

#[inline(never)]
pub(crate) fn leave() {
    let nested = NESTED.load(Ordering::Relaxed);
    if nested == 0 {
        WORD.store(FENCED, Ordering::Release);
    } else {
        NESTED.store(nested - 1, Ordering::Relaxed);
    }
}

/// The leader, after its fence: nobody looks at the word of a thread without the bit.
fn is_idle() -> bool {
    fence(Ordering::SeqCst);
    ACTIVE.load(Ordering::Relaxed) == 0 || WORD.load(Ordering::Acquire) & READING == 0
}
