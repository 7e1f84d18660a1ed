//! Sections and cookies in signal handlers.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sheaves_rcu::{Cookie, read, synchronize};

use crate::alone;

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: libc::c_int) {
    let outer = read();
    let inner = read();
    let cookie = Cookie::start_poll();
    let _ = cookie.poll();
    drop(inner);
    drop(outer);
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn handlers_read_and_poll_at_any_instruction() {
    let _alone = alone();
    // SAFETY: an all-zero action is valid to be filled.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler is async-signal-safe, which this test checks.
    let status =
        unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, core::ptr::null_mut()) };
    assert_eq!(status, 0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let (ready, is_ready) = std::sync::mpsc::channel();
                let stop = &stop;
                scope.spawn(move || {
                    // SAFETY: no precondition.
                    ready.send(unsafe { libc::pthread_self() }).unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        if number == 0 {
                            synchronize().unwrap();
                        } else {
                            let guard = read();
                            drop(read());
                            drop(guard);
                        }
                        assert!(!sheaves_rcu::is_reading());
                    }
                });
                is_ready.recv().unwrap()
            })
            .collect();
        for round in 0..20_000 {
            // SAFETY: the threads run until `stop`.
            assert_eq!(unsafe { libc::pthread_kill(threads[round % 3], libc::SIGUSR1) }, 0);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(HANDLED.load(Ordering::Relaxed) > 0);
    synchronize().unwrap();
}
