//! A fork in a signal handler that interrupts a holder of a lock, beside a thread that holds
//! another lock and waits for that one. The only test of its program: it has a layer of its own.

use core::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use sheaves_sys::fork::{self, Handlers, Layer};
use sheaves_sys::lock::Lock;

#[expect(dead_code, reason = "shared with tests of maps, which use all of it")]
#[path = "../../sheaves/tests/map/child.rs"]
mod child;

static OUTER: Lock<()> = Lock::new(());
static INNER: Lock<()> = Lock::new(());
static HANDLERS: Handlers = Handlers { prepare, parent: release, child: release };
sheaves_sys::fork_locks!(OUTER, INNER);

/// The status of a child that uses the lock and ends.
fn status_of_child() -> libc::c_int {
    // SAFETY: the child uses only what is tested, and exits.
    child::status_of_child(|| unsafe { libc::fork() }, || drop(OUTER.lock()))
}

#[test]
fn a_fork_beside_a_lock_in_the_other_order_ends() {
    static HAS_OUTER: AtomicBool = AtomicBool::new(false);
    // SAFETY: ends the test where two threads wait for each other.
    unsafe { libc::alarm(30) };
    fork::register();
    fork::announce(Layer::Control, &HANDLERS);
    let inner = INNER.lock();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _outer = OUTER.lock();
            HAS_OUTER.store(true, Ordering::Relaxed);
            drop(INNER.lock());
        });
        while !HAS_OUTER.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        // Another thread was changing what the lock covers: the child says so and ends.
        assert_eq!(status_of_child() & 0x7F, libc::SIGABRT);
        drop(inner);
    });
    assert_eq!(status_of_child(), 0);
}
