//! Forks in signal handlers that interrupt a thread which holds a lock.
//!
//! Another thread may wait for that lock, and hold one that the fork wants: then neither would go
//! on. So such a fork waits for each lock for a limited time. Where it does not get one, it is not
//! prepared: what it has taken is released before the process is copied.
//!
//! A handler may also interrupt a fork that takes its locks, or releases them, and fork itself.
//! That fork is not prepared either: other threads have some of the locks.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::lock::word::Word;
use crate::{futex, tls};

/// How often a lock is tried, and the time in between: 100 ms for each.
const ATTEMPTS: u32 = 1000;
const PAUSE_NS: u64 = 100_000;

const WAITS: u8 = 0;
const TRIES: u8 = 1;
const HAS_FAILED: u8 = 2;
/// How the current fork takes locks. Changes under [`super::PREPARING`].
static MODE: AtomicU8 = AtomicU8::new(WAITS);

/// Before the locks of a fork are taken.
pub(super) fn begin() {
    // Relaxed, here and below: under the lock.
    MODE.store(if tls::locks() == 0 { WAITS } else { TRIES }, Ordering::Relaxed);
}

/// After that. False if one of them was not free in time.
pub(super) fn has_all() -> bool {
    MODE.swap(WAITS, Ordering::Relaxed) != HAS_FAILED
}

/// Takes a word for the current fork; false where it is not free in time.
pub(crate) fn acquire(word: &Word) -> bool {
    // Relaxed, both: as above.
    match MODE.load(Ordering::Relaxed) {
        WAITS => word.acquire_for_fork(),
        TRIES if (0..ATTEMPTS).any(|attempt| try_again(word, attempt)) => {}
        _ => {
            MODE.store(HAS_FAILED, Ordering::Relaxed);
            return false;
        }
    }
    true
}

fn try_again(word: &Word, attempt: u32) -> bool {
    if attempt != 0 {
        futex::sleep_ns(PAUSE_NS);
    }
    word.try_acquire_for_fork()
}
