//! How the reclaimer is woken: its requests, and the word that it sleeps on.
//!
//! | `SLEEPING` | meaning |
//! |---|---|
//! | [`AWAKE`] | it checks everything before it sleeps again |
//! | [`UNTIL_AGE`] | requests wake it, and so does the arming of the keeper |
//! | [`UNTIL_DEFERRED`] | the same, and so does the first thing that is deferred |
//!
//! A thread with a request stores the request, then changes the bell, then reads whether the
//! reclaimer sleeps. The reclaimer reads the bell, then the requests, then stores that it sleeps,
//! and sleeps unless the bell has changed. All are SeqCst, so one of the two sees the other. [B1]

use core::sync::atomic::{AtomicU32, Ordering};

use sheaves_sys::{futex, request, restart_word};

/// Something is sealed that is worth a grace period, or waits for a membarrier.
pub(crate) const READY: u32 = 1;
/// Everything is to be sealed and reclaimed now.
pub(crate) const FLUSH: u32 = 2;
/// Other slots are to be swept, see [`super::layers::LayerAbove::sweep`].
pub(crate) const SWEEP: u32 = 4;
const AWAKE: u32 = 0;
pub(crate) const UNTIL_AGE: u32 = 1;
pub(crate) const UNTIL_DEFERRED: u32 = 2;

/// Changes with every request: the reclaimer sleeps on it.
static BELL: AtomicU32 = AtomicU32::new(0);
static SLEEPING: AtomicU32 = AtomicU32::new(AWAKE);
/// Pending requests. Taken by the thread that fulfils them.
static REQUESTS: AtomicU32 = AtomicU32::new(0);
static SLEEPS: AtomicU32 = AtomicU32::new(0);

/// Stores a request, and wakes the reclaimer if the request is new.
pub(crate) fn request(request: u32) {
    // SeqCst: see the module documentation, and `reclaimer`. [B1] [B4]
    if REQUESTS.fetch_or(request, Ordering::SeqCst) & request == 0 {
        wake_from(UNTIL_AGE);
    }
}

/// Wakes the reclaimer if it sleeps at least as deeply as `depth`.
pub(crate) fn wake_from(depth: u32) {
    // SeqCst, both: see the module documentation. [B1]
    BELL.fetch_add(1, Ordering::SeqCst);
    if SLEEPING.load(Ordering::SeqCst) >= depth {
        futex::wake(&BELL, 1);
    }
}

/// The requests, which the caller fulfils; and before them the bell, for [`sleep`].
pub(crate) fn take_requests() -> (u32, u32) {
    // SeqCst, both: see the module documentation. [B1]
    let bell = BELL.load(Ordering::SeqCst);
    (bell, REQUESTS.swap(0, Ordering::SeqCst))
}

pub(crate) fn has_requests() -> bool {
    // SeqCst: see `reclaimer`. [B4]
    REQUESTS.load(Ordering::SeqCst) != 0
}

/// Sleeps at this depth until the bell changes, which was `bell`; at most for `limit_ms()`, which
/// is read when it is known that the reclaimer sleeps.
pub(crate) fn sleep(bell: u32, depth: u32, limit_ms: impl FnOnce() -> u64) {
    // Relaxed: statistics.
    SLEEPS.fetch_add(1, Ordering::Relaxed);
    // SeqCst, both: see the module documentation. [B1]
    SLEEPING.store(depth, Ordering::SeqCst);
    request::sleep(&BELL, bell, limit_ms().max(1) * 1_000_000);
    SLEEPING.store(AWAKE, Ordering::SeqCst);
}

pub(crate) fn sleeps() -> u32 {
    // Relaxed: statistics.
    SLEEPS.load(Ordering::Relaxed)
}

/// In the child of a fork the reclaimer does not sleep. What was not sealed waits for a request, if
/// `has_unsealed`.
pub(crate) fn restart_in_child(has_unsealed: bool) {
    restart_word!(SLEEPING, AWAKE);
    if has_unsealed {
        // Relaxed: the child has one thread.
        REQUESTS.fetch_or(FLUSH, Ordering::Relaxed);
    }
}
