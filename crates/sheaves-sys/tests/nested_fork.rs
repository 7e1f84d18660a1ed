//! A fork that interrupts another one of its thread, which has released some locks already. The
//! only test of its program: it has layers of its own.

use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

use sheaves_sys::fork::{self, Handlers, Layer};
use sheaves_sys::lock::Lock;

#[expect(dead_code, reason = "shared with tests of maps, which use all of it")]
#[path = "../../sheaves/tests/map/child.rs"]
mod child;

/// Released first.
static LOWER: Lock<()> = Lock::new(());
static LOWER_HANDLERS: Handlers = Handlers { prepare, parent: release, child: release };
sheaves_sys::fork_locks!(LOWER);
/// Stands for a signal handler that forks then.
static UPPER_HANDLERS: Handlers = Handlers { prepare: || (), parent: interrupt, child: || () };

static INTERRUPTS: AtomicBool = AtomicBool::new(false);
static IS_CHANGING: AtomicBool = AtomicBool::new(false);
static NESTED_STATUS: AtomicI32 = AtomicI32::new(-1);

fn interrupt() {
    if INTERRUPTS.swap(false, Ordering::Relaxed) {
        while !IS_CHANGING.load(Ordering::Relaxed) {
            thread::yield_now();
        }
        NESTED_STATUS.store(status_of_child(), Ordering::Relaxed);
    }
}

/// The status of a child that uses the lock and ends.
fn status_of_child() -> libc::c_int {
    // SAFETY: the child uses only what is tested, and exits.
    child::status_of_child(|| unsafe { libc::fork() }, || drop(LOWER.lock()))
}

#[test]
fn a_fork_in_the_end_of_another_is_not_prepared() {
    fork::register();
    fork::announce(Layer::PerCpu, &LOWER_HANDLERS);
    fork::announce(Layer::Control, &UPPER_HANDLERS);
    INTERRUPTS.store(true, Ordering::Relaxed);
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while INTERRUPTS.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            let _changing = LOWER.lock();
            IS_CHANGING.store(true, Ordering::Relaxed);
            while !IS_OVER.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        });
        assert_eq!(status_of_child(), 0);
        IS_OVER.store(true, Ordering::Relaxed);
    });
    // Another thread was changing what the lock covers.
    assert_eq!(NESTED_STATUS.load(Ordering::Relaxed) & 0x7F, libc::SIGABRT);
    assert_eq!(status_of_child(), 0);
}
