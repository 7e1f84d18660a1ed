//! Guards that are never dropped: what their sections protect is never freed, also after their
//! threads have ended. Each test has its own process, in which no grace period ends any more.

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::mpsc::channel;
use std::time::Instant;

use sheaves_rcu::{Cookie, Guard, RcuCell, RcuOption, Srcu, defer, read, stall};

use crate::configurations::in_own_process;
use crate::leaked::{Counted, LONG, in_thread, leak, passes};

/// The limit for everything that has to happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Waits until something has happened.
pub(crate) fn until(happened: impl Fn() -> bool) {
    let begin = Instant::now();
    while !happened() {
        assert!(begin.elapsed() < DEADLINE, "it does not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_value_of_a_cell_stays() {
    if in_own_process("leaks::the_value_of_a_cell_stays") {
        return;
    }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let cell = leak(RcuCell::new(Counted(&DROPS)));
    let seen: &'static Counted = in_thread(|| cell.load(leak(read())));
    cell.store(Counted(&DROPS)).defer();
    assert!(!passes(), "a grace period has ended under a guard that was never dropped");
    assert_eq!(seen.0.load(Ordering::SeqCst), 0, "the value was dropped under its reader");
}

#[test]
fn the_value_of_an_option_stays() {
    if in_own_process("leaks::the_value_of_an_option_stays") {
        return;
    }
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let option = leak(RcuOption::new(Counted(&DROPS)));
    let seen: &'static Counted = in_thread(|| option.load(leak(read())).unwrap());
    option.take().unwrap().defer();
    assert!(!passes(), "a grace period has ended under a guard that was never dropped");
    assert_eq!(seen.0.load(Ordering::SeqCst), 0, "the value was dropped under its reader");
}

#[test]
fn one_of_several_guards_is_enough() {
    if in_own_process("leaks::one_of_several_guards_is_enough") {
        return;
    }
    in_thread(|| {
        // Many sections before, so that the thread's sections no longer fence.
        (0..1000).for_each(|_| drop(read()));
        let outer = read();
        let inner: &'static Guard = leak(read());
        drop(outer);
        assert!(sheaves_rcu::is_reading(), "{inner:?}");
    });
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let counted = Counted(&DROPS);
    defer(move || drop(counted));
    assert!(!passes());
    // Later threads neither get the record nor end the section.
    (0..100).for_each(|_| in_thread(|| drop(read())));
    assert!(!passes());
    assert_eq!(DROPS.load(Ordering::SeqCst), 0);
}

#[test]
fn a_guard_in_the_thread_s_own_storage_is_dropped_in_time() {
    if in_own_process("leaks::a_guard_in_the_thread_s_own_storage_is_dropped_in_time") {
        return;
    }
    thread_local! {
        static HELD: core::cell::RefCell<Option<Guard>> = const { core::cell::RefCell::new(None) };
    }
    in_thread(|| HELD.set(Some(read())));
    let cookie = Cookie::start_poll_expedited();
    until(|| cookie.poll());
}

#[test]
fn the_thread_that_has_ended_is_named() {
    if in_own_process("leaks::the_thread_that_has_ended_is_named") {
        return;
    }
    static ENDED: AtomicBool = AtomicBool::new(false);
    static REPORTS: AtomicUsize = AtomicUsize::new(0);
    stall::set_timeout_ms(5);
    stall::set_callback(Some(|stall| {
        ENDED.store(stall.has_ended && stall.thread > 0, Ordering::SeqCst);
        REPORTS.fetch_add(1, Ordering::SeqCst);
    }));
    in_thread(|| core::mem::forget(read()));
    assert!(!passes());
    assert!(ENDED.load(Ordering::SeqCst));
    assert!(!passes());
    assert_eq!(REPORTS.load(Ordering::SeqCst), 1, "one report for each grace period");
}

/// True if a grace period of a domain, for which a new thread waits, ends in time.
fn ends_within(time: Duration, domain: &'static Srcu) -> bool {
    let (say, done) = channel();
    std::thread::spawn(move || {
        domain.synchronize();
        say.send(())
    });
    done.recv_timeout(time).is_ok()
}

#[test]
fn guards_of_domains_stay_or_are_dropped_elsewhere() {
    let (sent, leaked) = (leak(Srcu::new().unwrap()), leak(Srcu::new().unwrap()));
    let guard = in_thread(|| sent.read());
    assert!(!ends_within(LONG, sent), "the guard is on its way");
    in_thread(move || drop(guard));
    assert!(ends_within(DEADLINE, sent));
    in_thread(|| core::mem::forget(leaked.read()));
    assert!(!ends_within(LONG, leaked));
    // Another domain is not affected.
    assert!(ends_within(DEADLINE, sent));
}
