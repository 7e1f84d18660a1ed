//! The *driver*: the one thread at a time that reclaims what is ready.
//!
//! The driver runs what the program has deferred, however long that takes. So a fork does not wait
//! for it. In the child, the driver goes on if it is the thread that forked; otherwise there is
//! none. All state that it works on is kept so that another driver can go on with it.

use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_sys::lock::Word;
use sheaves_sys::{futex, tls};

use super::{watch, workers};

/// Held by the driver.
static DRIVER: Word = Word::new();
/// The driver's thread pointer, 0 while there is none. Written by the driver.
static THREAD: AtomicUsize = AtomicUsize::new(0);

/// How often a thread that waits for the driver checks for a stalled callback.
const LOOK_NS: u64 = 100_000_000;

/// The calling thread is the driver while this exists.
#[must_use = "the thread drives as long as this exists"]
pub(super) struct Driving(());

impl Driving {
    /// For the thread that has taken [`DRIVER`].
    fn begin() -> Driving {
        // Relaxed: a thread that compares it with its own pointer has stored it itself, or finds
        // another.
        THREAD.store(tls::thread_pointer(), Ordering::Relaxed);
        Driving(())
    }
}

/// Makes the calling thread the driver if there is none.
pub(super) fn try_drive() -> Option<Driving> {
    DRIVER.try_acquire().then(Driving::begin)
}

/// Makes the calling thread the driver, after the current one. Not for the driver itself.
pub(super) fn drive() -> Driving {
    DRIVER.acquire(|word, value| {
        futex::wait_for(word, value, LOOK_NS);
        watch::look();
    });
    Driving::begin()
}

/// True if the calling thread is the driver or one of its workers. Then it is inside something that
/// was deferred.
pub(super) fn is_driving() -> bool {
    is_driver() || workers::is_worker()
}

/// True if the calling thread is the driver itself.
fn is_driver() -> bool {
    // Relaxed: see `Driving::begin`.
    THREAD.load(Ordering::Relaxed) == tls::thread_pointer()
}

impl Drop for Driving {
    fn drop(&mut self) {
        // Relaxed: see `Driving::begin`.
        THREAD.store(0, Ordering::Relaxed);
        // SAFETY: taken by this thread, or by a worker on its behalf, see `restart_in_child`.
        unsafe { DRIVER.release() };
    }
}

/// In the child of a fork: a driver in another thread does not exist. A worker whose callback has
/// forked is the driver now.
pub(super) fn restart_in_child(was_worker: bool) {
    let drives = was_worker || is_driver();
    // Relaxed: the child has one thread.
    THREAD.store(if drives { tls::thread_pointer() } else { 0 }, Ordering::Relaxed);
    DRIVER.restart_in_child(drives);
}

/// Such a worker has finished its share.
pub(super) fn end_of_orphan() {
    drop(Driving(()));
}
