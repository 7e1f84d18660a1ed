//! What Rust's runtime changes before `main`, and the program must find as our caller left it.
//!
//! The runtime ignores SIGPIPE, and opens `/dev/null` in place of standard descriptors that are
//! closed. So both are noted when this command is loaded, and restored before the program starts.
//! The runtime leaves the signal mask and all other dispositions alone.
#![expect(unsafe_code, reason = "a function that runs before the runtime, and signal(2)")]

use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::BorrowedFd;

use nix::sys::signal::{SigHandler, Signal, signal};
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::stdio::{stderr, stdin, stdout};

/// SIGPIPE is ignored by our caller.
static IS_PIPE_IGNORED: AtomicBool = AtomicBool::new(false);
/// Standard descriptors that are closed.
static IS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

fn standard() -> [BorrowedFd<'static>; 3] {
    [stdin(), stdout(), stderr()]
}

/// Runs before the runtime starts, in one thread.
extern "C" fn note() {
    // SAFETY: no handler is installed.
    let before = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
    // Relaxed, here and below: there is no other thread yet.
    IS_PIPE_IGNORED.store(matches!(before, Ok(SigHandler::SigIgn)), Ordering::Relaxed);
    for (is_closed, descriptor) in IS_CLOSED.iter().zip(standard()) {
        is_closed.store(fcntl_getfd(descriptor).is_err(), Ordering::Relaxed);
    }
}

/// Restores them for the program, which `exec` starts next.
pub(super) fn restore() {
    // Relaxed, here and below: written before there was another thread.
    if !IS_PIPE_IGNORED.load(Ordering::Relaxed) {
        // SAFETY: no handler is installed. It cannot fail for this signal.
        let _ = unsafe { signal(Signal::SIGPIPE, SigHandler::SigDfl) };
    }
    for (is_closed, descriptor) in IS_CLOSED.iter().zip(standard()) {
        if is_closed.load(Ordering::Relaxed) {
            // It is open: the runtime has seen to that.
            let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
        }
    }
}
