//! Who takes back what is ready: one thread at a time, the *driver*.
//!
//! The driver runs what the program has deferred, for as long as that takes. So before a fork
//! nobody waits for it; in the child it goes on if it was the thread that forked, and is nobody
//! otherwise. Everything that it works on is kept so that another one can go on with it.

use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves_sys::lock::Word;
use sheaves_sys::{futex, tls};

use super::{watch, workers};

/// Held by the driver.
static DRIVER: Word = Word::new();
/// The driver's thread pointer, 0 while there is none. Written by it.
static THREAD: AtomicUsize = AtomicUsize::new(0);

/// Who waits for the driver looks after it so often.
const LOOK_NS: u64 = 100_000_000;

/// The calling thread drives while this exists.
#[must_use = "the thread drives as long as this exists"]
pub(super) struct Driving(());

impl Driving {
    /// For the thread that has taken [`DRIVER`].
    fn begin() -> Driving {
        // Relaxed: who compares it with its own pointer has stored that itself, or finds another.
        THREAD.store(tls::thread_pointer(), Ordering::Relaxed);
        Driving(())
    }
}

/// Drives if nobody does.
pub(super) fn try_drive() -> Option<Driving> {
    DRIVER.try_acquire().then(Driving::begin)
}

/// Drives, after whoever does now. Not for the driver itself.
pub(super) fn drive() -> Driving {
    DRIVER.acquire(|word, value| {
        futex::wait_for(word, value, LOOK_NS);
        watch::look();
    });
    Driving::begin()
}

/// Does the calling thread drive, or work for who does? Then it is inside of something that was
/// deferred.
pub(super) fn is_driving() -> bool {
    is_driver() || workers::is_worker()
}

/// Is the calling thread the driver itself?
fn is_driver() -> bool {
    // Relaxed: see `Driving::begin`.
    THREAD.load(Ordering::Relaxed) == tls::thread_pointer()
}

impl Drop for Driving {
    fn drop(&mut self) {
        // Relaxed: see `Driving::begin`.
        THREAD.store(0, Ordering::Relaxed);
        // SAFETY: taken by this thread, or by a worker in its name, see `restart_in_child`.
        unsafe { DRIVER.release() };
    }
}

/// In the child of a fork: another thread that drove is not there. A worker whose call has forked
/// drives now.
pub(super) fn restart_in_child(was_worker: bool) {
    let drives = was_worker || is_driver();
    // Relaxed: the child has one thread.
    THREAD.store(if drives { tls::thread_pointer() } else { 0 }, Ordering::Relaxed);
    DRIVER.restart_in_child(drives);
}

/// The share of such a worker is at its end.
pub(super) fn end_of_orphan() {
    drop(Driving(()));
}
