//! Sections of threads that found no memory for a record.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::mpsc::{Sender, channel};
use std::thread::Scope;
use std::time::Instant;

use sheaves_rcu::{Cookie, is_reading, raw, read, stall, statistics, synchronize};

use crate::configurations::in_own_process;
use crate::forks::in_child;

/// Refuses new memory to this process, or permits it again.
fn refuse_memory(is_refused: bool) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is valid for the call to fill.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) }, 0);
    limit.rlim_cur = if is_refused { 1 } else { limit.rlim_max };
    // SAFETY: the limit is valid.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

#[test]
fn sections_without_memory_are_sections() {
    if in_own_process("shared::sections_without_memory_are_sections") {
        return;
    }
    refuse_memory(true);
    let outer = read();
    assert!(is_reading());
    assert_eq!(statistics().records, 0);
    assert!(synchronize().is_err());
    let cookie = Cookie::start_poll_expedited();
    let inner = read();
    drop(outer);
    assert!(is_reading() && !cookie.poll());
    // The forking thread's sections stay open in the child.
    assert!(in_child(|| {
        let stays = is_reading() && !cookie.poll() && synchronize().is_err();
        drop(inner);
        stays && !is_reading() && synchronize().is_ok() && cookie.poll()
    }));
    // The closure was dropped here, and with it the guard.
    assert!(!is_reading() && cookie.poll());
    assert!(synchronize().is_ok());
    // The thread gets a record while it has open sections: they end in any order.
    raw::lock();
    refuse_memory(false);
    raw::lock();
    assert_eq!(statistics().records, 1);
    // SAFETY: two sections are open.
    unsafe { raw::unlock() };
    assert!(is_reading() && synchronize().is_err());
    // SAFETY: one section is open.
    unsafe { raw::unlock() };
    assert!(!is_reading() && synchronize().is_ok());
}

/// A thread without a record enters a section. It leaves when it is told to.
fn read_without_memory<'scope>(scope: &'scope Scope<'scope, '_>) -> Sender<()> {
    let ((ready, is_ready), (stop, stopped)) = (channel(), channel::<()>());
    scope.spawn(move || {
        refuse_memory(true);
        let guard = read();
        refuse_memory(false);
        ready.send(()).unwrap();
        stopped.recv().unwrap();
        drop(guard);
    });
    is_ready.recv().unwrap();
    stop
}

#[test]
fn a_section_without_memory_is_waited_for() {
    if in_own_process("shared::a_section_without_memory_is_waited_for") {
        return;
    }
    std::thread::scope(|scope| {
        let stop = read_without_memory(scope);
        let cookie = Cookie::start_poll_expedited();
        assert!(!cookie.poll() && !is_reading());
        stop.send(()).unwrap();
        cookie.wait().unwrap();
    });
    assert_eq!(statistics().records, 0);
}

/// Of a thread that has none. Otherwise a grace period would not wait for the other thread.
#[test]
fn a_section_of_another_thread_is_not_left() {
    if in_own_process("shared::a_section_of_another_thread_is_not_left") {
        return;
    }
    assert!(!in_child(|| {
        std::thread::scope(|scope| {
            let _stop = read_without_memory(scope);
            // SAFETY: no section is open here, which ends the process.
            unsafe { raw::unlock() };
            // SAFETY: ends the child at once, where it goes on.
            unsafe { libc::_exit(0) }
        })
    }));
}

/// No sequence tells the grace periods of such sections from each other.
#[test]
fn each_section_without_memory_is_reported() {
    if in_own_process("shared::each_section_without_memory_is_reported") {
        return;
    }
    static REPORTS: AtomicUsize = AtomicUsize::new(0);
    stall::set_timeout_ms(10);
    stall::set_callback(Some(|_| _ = REPORTS.fetch_add(1, Ordering::SeqCst)));
    for number in 1..=3 {
        let is_reported = || REPORTS.load(Ordering::SeqCst) == number;
        std::thread::scope(|scope| {
            let stop = read_without_memory(scope);
            scope.spawn(|| synchronize().unwrap());
            let begin = Instant::now();
            while !is_reported() && begin.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(1));
            }
            stop.send(()).unwrap();
        });
        assert!(is_reported(), "grace period {number}");
    }
    assert_eq!(statistics().records, 0);
}
