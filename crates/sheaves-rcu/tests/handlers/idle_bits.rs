//! A broken variant: an earlier form of readers, with a bit per thread that marked it active.
//!
//! An outermost section stored its word, fenced, and then set its thread's bit if it was clear. A
//! handler's section in between found the word stored, counted itself as nested, and set no bit. A
//! leader that found the bit clear took the thread for idle.

use core::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

use crate::objects::Waiting;

const FENCED: u64 = 1 << 15;
const READING: u64 = 1;

static WORD: AtomicU64 = AtomicU64::new(FENCED);
static NESTED: AtomicU64 = AtomicU64::new(0);
static ACTIVE: AtomicU64 = AtomicU64::new(0);

pub(crate) const WAITING: Waiting = Waiting { ask: || 0, poll: |_| is_idle() };

/// Marks the thread as idle.
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

/// The leader's check, after its fence: it skips the word of a thread whose bit is clear.
fn is_idle() -> bool {
    fence(Ordering::SeqCst);
    ACTIVE.load(Ordering::Relaxed) == 0 || WORD.load(Ordering::Acquire) & READING == 0
}
