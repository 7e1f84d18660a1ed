//! What tests of guards that are never dropped share, here and in the crate `sheaves`.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::time::Instant;

use sheaves_rcu::Cookie;

/// Long: the leader checks after two milliseconds whether a reader's thread exists.
pub(crate) const LONG: Duration = Duration::from_millis(60);

/// Counts how often values of this type are dropped.
pub(crate) struct Counted(pub(crate) &'static AtomicUsize);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Returns what `body` returns, in a thread that has ended.
pub(crate) fn in_thread<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(body).join().unwrap())
}

/// Advances grace periods for a while. True if one that begins now has ended.
pub(crate) fn passes() -> bool {
    let cookie = Cookie::start_poll_expedited();
    let begin = Instant::now();
    // A minimum of rounds, for busy machines.
    for round in 0.. {
        if cookie.poll() {
            return true;
        }
        if round > 20 && begin.elapsed() > LONG {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}
