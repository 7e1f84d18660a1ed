//! Who takes back what is ready: one thread at a time, the *driver*.
//!
//! | `DRIVER` | meaning | transitions |
//! |---|---|---|
//! | 0 | nobody | -> 1 by whoever drives |
//! | 1 | a thread drives | -> 0 by it |
//! | 2 | the same, and others may wait | -> 0 by it, which wakes one |
//!
//! The driver runs what the program has deferred, for as long as that takes. So before a fork
//! nobody waits for it; in the child it goes on if it was the thread that forked, and is nobody
//! otherwise. Everything that it works on is kept so that another one can go on with it.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use sheaves_sys::{futex, tls};

use super::{watch, workers};

static DRIVER: AtomicU32 = AtomicU32::new(0);
/// The driver's thread pointer, 0 while there is none. Written by it.
static THREAD: AtomicUsize = AtomicUsize::new(0);

/// Who waits for the driver looks after it so often.
const LOOK_NS: u64 = 100_000_000;

/// The calling thread drives while this exists.
#[must_use = "the thread drives as long as this exists"]
pub(super) struct Driving(());

/// Drives if nobody does.
pub(super) fn try_drive() -> Option<Driving> {
    // Acquire pairs with the Release in `drop`. Relaxed on failure: nothing is read. [W1]
    DRIVER.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
    // Relaxed: who compares it with its own pointer has stored that itself, or finds another.
    THREAD.store(tls::thread_pointer(), Ordering::Relaxed);
    Some(Driving(()))
}

/// Drives, after whoever does now. Not for the driver itself.
pub(super) fn drive() -> Driving {
    loop {
        if let Some(driving) = try_drive() {
            return driving;
        }
        // Acquire pairs with the Release in `drop`. 2 also when nobody else waits: a needless
        // wake-up, but no sleeper is forgotten. [W1]
        if DRIVER.swap(2, Ordering::Acquire) == 0 {
            // Relaxed: as in `try_drive`.
            THREAD.store(tls::thread_pointer(), Ordering::Relaxed);
            return Driving(());
        }
        futex::wait_for(&DRIVER, 2, LOOK_NS);
        watch::look();
    }
}

/// Does the calling thread drive, or work for who does? Then it is inside of something that was
/// deferred.
pub(super) fn is_driving() -> bool {
    is_driver() || workers::is_worker()
}

/// Is the calling thread the driver itself?
fn is_driver() -> bool {
    // Relaxed: see `try_drive`.
    THREAD.load(Ordering::Relaxed) == tls::thread_pointer()
}

impl Drop for Driving {
    fn drop(&mut self) {
        // Relaxed: see `try_drive`.
        THREAD.store(0, Ordering::Relaxed);
        // Release pairs with the Acquire of the next driver. [W1]
        if DRIVER.swap(0, Ordering::Release) == 2 {
            futex::wake(&DRIVER, 1);
        }
    }
}

/// In the child of a fork: another thread that drove is not there. A worker whose call has forked
/// drives now.
pub(super) fn restart_in_child(was_worker: bool) {
    if was_worker {
        // Relaxed, here and below: the child has one thread.
        THREAD.store(tls::thread_pointer(), Ordering::Relaxed);
        DRIVER.store(1, Ordering::Relaxed);
    } else if !is_driver() {
        THREAD.store(0, Ordering::Relaxed);
        DRIVER.store(0, Ordering::Relaxed);
    }
}

/// The share of such a worker is at its end.
pub(super) fn end_of_orphan() {
    drop(Driving(()));
}
