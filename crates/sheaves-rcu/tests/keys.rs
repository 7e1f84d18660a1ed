//! A program that has taken all of libc's keys before it reads. One test, because it needs them
//! all.
//!
//! On x86-64 only the end of threads depends on keys. For the behaviour of other architectures:
//!
//! ```sh
//! RUSTFLAGS="--cfg sheaves_keys" cargo test -p sheaves-rcu --test keys
//! ```

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::mpsc::channel;
use std::time::Instant;

use sheaves_rcu::{Cookie, RcuCell, raw, read, statistics, synchronize};

/// Waits until `happened` returns true.
fn until(happened: impl Fn() -> bool) {
    let begin = Instant::now();
    while !happened() {
        assert!(begin.elapsed() < Duration::from_secs(30), "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Takes all keys except a few that the test program needs itself.
fn take_keys() {
    for _ in 0..1000 {
        let mut key = 0;
        // SAFETY: the key is valid for the call to fill.
        assert_eq!(unsafe { libc::pthread_key_create(&raw mut key, None) }, 0);
    }
}

fn sections_nest() {
    let outer = read();
    let inner = read();
    drop(outer);
    assert!(sheaves_rcu::is_reading());
    drop(inner);
    assert!(!sheaves_rcu::is_reading());
    raw::lock();
    raw::lock();
    // SAFETY: two sections were entered.
    unsafe { raw::unlock() };
    assert!(synchronize().is_err());
    // SAFETY: as above.
    unsafe { raw::unlock() };
    assert!(synchronize().is_ok());
}

fn a_reader_is_waited_for() {
    let cell = RcuCell::new(Box::new(1));
    let is_over = AtomicBool::new(false);
    let (stop, stopped) = channel::<()>();
    let (say, reads) = channel();
    std::thread::scope(|scope| {
        let (cell, is_over) = (&cell, &is_over);
        scope.spawn(move || {
            let guard = read();
            let seen = cell.load(&guard);
            say.send(()).unwrap();
            stopped.recv().unwrap();
            assert_eq!(**seen, 1);
            assert!(!is_over.load(Ordering::SeqCst));
        });
        reads.recv().unwrap();
        let old = cell.store(Box::new(2));
        let cookie = Cookie::start_poll_expedited();
        assert!((0..20).all(|_| !cookie.poll()));
        stop.send(()).unwrap();
        until(|| cookie.poll());
        is_over.store(true, Ordering::SeqCst);
        assert_eq!(**old, 1);
    });
}

#[test]
fn readers_need_no_key() {
    take_keys();
    sections_nest();
    a_reader_is_waited_for();
    for _ in 0..1500 {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..3).for_each(|_| drop(read())));
            }
        });
    }
    assert!(statistics().records <= 2 * 1024, "{} records", statistics().records);
    sections_nest();
}
