//! Reports name the readers that delay grace periods, and the program's function is called.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::time::Instant;

use sheaves_rcu::{Cookie, read, stall, synchronize};

use crate::configurations::in_own_process;
use crate::full_stderr::{in_front_of_full_stderr, is_done_in_time};
use crate::{Reader, alone, children};

/// Sets the function and a short timeout, until this is dropped.
struct Reports;

impl Reports {
    fn to(function: fn(&stall::Stall)) -> Reports {
        stall::set_timeout_ms(100);
        stall::set_callback(Some(function));
        Reports
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        stall::set_callback(None);
        stall::set_timeout_ms(1000);
    }
}

/// Waits until something has happened.
fn until(happened: impl Fn() -> bool) {
    let begin = Instant::now();
    while !happened() {
        assert!(begin.elapsed() < Duration::from_secs(30), "nothing was reported");
        std::thread::sleep(Duration::from_millis(5));
    }
}

static STALLED: Mutex<Option<(i32, String, bool)>> = Mutex::new(None);

#[test]
fn a_stalled_reader_is_named() {
    let _alone = alone();
    let _reports = Reports::to(|stall| {
        let entered = stall.entered.is_some_and(|place| place.file().ends_with("main.rs"));
        *STALLED.lock().unwrap() = Some((stall.thread, stall.name().to_owned(), entered));
    });
    let reader = Reader::start();
    std::thread::scope(|scope| {
        scope.spawn(|| synchronize().unwrap());
        until(|| STALLED.lock().unwrap().is_some());
        drop(reader);
    });
    let (thread, name, entered) = STALLED.lock().unwrap().take().unwrap();
    assert!(thread > 0);
    assert_eq!(name, "holds-up");
    assert_eq!(entered, cfg!(debug_assertions));
}

/// A line waits where standard error is a pipe that nothing empties. Then another thread leads.
#[test]
fn no_grace_period_waits_for_a_report() {
    if in_own_process("stalls::no_grace_period_waits_for_a_report") {
        return;
    }
    stall::set_timeout_ms(50);
    let reader = Reader::start();
    let is_done = in_front_of_full_stderr(|| {
        std::thread::spawn(synchronize);
        // Meanwhile it reports the reader.
        std::thread::sleep(Duration::from_secs(1));
        drop(reader);
        is_done_in_time(|| synchronize().unwrap())
    });
    assert!(is_done, "a grace period waits for the report");
}

static REFUSED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn the_function_may_not_wait_and_may_read() {
    let _alone = alone();
    let _reports = Reports::to(|_| {
        drop(read());
        let cookie = Cookie::start_poll_expedited();
        assert!(!cookie.poll() && cookie.wait().is_err());
        assert!(synchronize().is_err());
        REFUSED.fetch_add(1, Ordering::SeqCst);
    });
    let reader = Reader::start();
    std::thread::scope(|scope| {
        scope.spawn(|| synchronize().unwrap());
        until(|| REFUSED.load(Ordering::SeqCst) != 0);
        drop(reader);
    });
    // The thread that led may wait again.
    synchronize().unwrap();
}

/// The thread leads in the child, too, and would wait for itself.
#[test]
fn a_function_that_forks_must_not_wait_in_the_child() {
    let _alone = alone();
    static IS_REFUSED: Mutex<Option<bool>> = Mutex::new(None);
    let _reports = Reports::to(|_| {
        let is_refused = children::in_child(Duration::from_secs(10), || synchronize().is_err());
        *IS_REFUSED.lock().unwrap() = Some(is_refused);
    });
    let reader = Reader::start();
    std::thread::scope(|scope| {
        scope.spawn(|| synchronize().unwrap());
        until(|| IS_REFUSED.lock().unwrap().is_some());
        drop(reader);
    });
    assert_eq!(*IS_REFUSED.lock().unwrap(), Some(true));
}

#[test]
fn a_function_that_panics_gives_the_lead_back() {
    let _alone = alone();
    let reports = Reports::to(|_| panic!("this panic is part of the test"));
    let reader = Reader::start();
    assert!(catch_unwind(synchronize).is_err());
    drop(reports);
    // The lead is free, no thread counts as being inside the function, and the grace period goes
    // on.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            synchronize().unwrap();
            done.store(true, Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(20));
        assert!(!done.load(Ordering::SeqCst));
        drop(reader);
        until(|| done.load(Ordering::SeqCst));
    });
    synchronize().unwrap();
}

extern "C" fn wait_and_return(_: *mut libc::c_void) -> *mut libc::c_void {
    synchronize().unwrap();
    core::ptr::without_provenance_mut(1)
}

#[test]
fn a_leader_is_not_cancelled_in_the_middle() {
    let _alone = alone();
    let reader = Reader::start();
    let mut thread: libc::pthread_t = 0;
    let (null, argument) = (core::ptr::null(), core::ptr::null_mut());
    // SAFETY: the thread ignores its argument.
    let status = unsafe { libc::pthread_create(&raw mut thread, null, wait_and_return, argument) };
    assert_eq!(status, 0);
    // Long enough for the leader to sleep between two reads of the reader's word.
    std::thread::sleep(Duration::from_millis(50));
    // SAFETY: the thread was started above and is not joined yet.
    assert_eq!(unsafe { libc::pthread_cancel(thread) }, 0);
    std::thread::sleep(Duration::from_millis(20));
    drop(reader);
    let mut result = core::ptr::null_mut();
    // SAFETY: started above, joined once.
    assert_eq!(unsafe { libc::pthread_join(thread, &raw mut result) }, 0);
    assert_eq!(result.addr(), 1, "the leader was ended while it led");
    synchronize().unwrap();
}
