//! Tests of read sections, grace periods and cookies of the default domain.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Barrier;

use sheaves_rcu::{Cookie, raw, read, statistics, synchronize, synchronize_expedited};

#[path = "../children/mod.rs"]
mod children;
#[path = "../configurations/mod.rs"]
mod configurations;
mod cookies;
mod counts;
mod errno;
mod exits;
mod forks;
#[path = "../full_stderr/mod.rs"]
mod full_stderr;
mod futures;
mod leaked;
mod leaks;
mod refusals;
mod shared;
mod signals;
mod stalls;

/// Several threads of one test program share the domain, and a report of one test would name
/// readers of another. So tests that hold read sections open take this lock.
fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A thread that is inside a read section until this is dropped.
struct Reader {
    stop: std::sync::mpsc::Sender<()>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Reader {
    fn start() -> Reader {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("holds-up".into()).spawn(move || {
            let guard = read();
            ready.send(()).unwrap();
            let _ = stopped.recv();
            drop(guard);
        });
        is_ready.recv().unwrap();
        Reader { stop, thread: Some(thread.unwrap()) }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.send(()).unwrap();
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn sections_nest() {
    let _alone = alone();
    assert!(!sheaves_rcu::is_reading());
    let guards: Vec<_> = (0..1000).map(|_| read()).collect();
    assert!(sheaves_rcu::is_reading());
    drop(guards);
    assert!(!sheaves_rcu::is_reading());
    raw::lock();
    raw::lock();
    // SAFETY: two sections were entered.
    unsafe { raw::unlock() };
    assert!(sheaves_rcu::is_reading());
    // SAFETY: as above.
    unsafe { raw::unlock() };
    assert!(!sheaves_rcu::is_reading());
}

#[test]
fn waiting_inside_a_section_is_refused() {
    let _alone = alone();
    let guard = read();
    assert!(synchronize().is_err());
    assert!(synchronize_expedited().is_err());
    let cookie = Cookie::start_poll();
    assert!(!cookie.poll());
    assert!(cookie.wait().is_err());
    assert!(cookie.wait_expedited().is_err());
    drop(guard);
    assert!(synchronize().is_ok());
    assert!(cookie.wait().is_ok());
}

#[test]
fn one_membarrier_for_each_grace_period() {
    let _alone = alone();
    let (begin, end) = (Barrier::new(2), Barrier::new(2));
    let (before, after) = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Many sections, so that the thread no longer fences: nothing says that it will not
            // read.
            (0..1000).for_each(|_| drop(read()));
            begin.wait();
            end.wait();
        });
        begin.wait();
        let before = statistics();
        for _ in 0..100 {
            synchronize_expedited().unwrap();
        }
        let after = statistics();
        end.wait();
        (before, after)
    });
    assert_eq!(after.grace_periods - before.grace_periods, 100);
    assert_eq!(after.membarriers - before.membarriers, 100);
}

#[test]
fn a_reader_is_waited_for() {
    let _alone = alone();
    let reader = Reader::start();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            synchronize().unwrap();
            done.store(true, Ordering::SeqCst);
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!done.load(Ordering::SeqCst));
        drop(reader);
    });
    assert!(done.load(Ordering::SeqCst));
}

#[test]
fn a_reader_that_began_later_is_not_waited_for() {
    let _alone = alone();
    let early = Reader::start();
    let cookie = Cookie::start_poll_expedited();
    assert!(!cookie.poll());
    let _late = Reader::start();
    assert!(!cookie.poll());
    drop(early);
    assert!(cookie.poll());
}

#[test]
fn who_arrives_in_the_middle_waits_for_the_next() {
    let _alone = alone();
    let first = Reader::start();
    let before = Cookie::start_poll_expedited();
    let _second = Reader::start();
    // The grace period of `before` is under way and does not wait for the second reader.
    let middle = Cookie::start_poll_expedited();
    assert!(before < middle);
    drop(first);
    assert!(before.poll());
    assert!(!middle.poll());
    assert!(!middle.poll());
}

#[test]
fn a_cookie_without_a_request_starts_nothing() {
    let _alone = alone();
    let cookie = Cookie::get();
    let before = statistics().grace_periods;
    assert!(!cookie.poll());
    assert_eq!(statistics().grace_periods, before);
    synchronize().unwrap();
    assert!(cookie.poll());
    assert_eq!(Cookie::from_bits(cookie.to_bits()), cookie);
}

#[test]
fn many_waiters_all_return() {
    let _alone = alone();
    let waited = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                for round in 0..100 {
                    if round % 10 == 0 {
                        Cookie::start_poll().wait().unwrap();
                    } else {
                        synchronize().unwrap();
                    }
                    waited.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(waited.into_inner(), 5000);
}

#[test]
fn expedite_nests() {
    let _alone = alone();
    let outer = sheaves_rcu::expedite();
    let inner = sheaves_rcu::expedite();
    synchronize().unwrap();
    drop(outer);
    synchronize().unwrap();
    drop(inner);
    sheaves_rcu::end_startup();
    synchronize().unwrap();
}

#[test]
fn in_every_configuration() {
    configurations::run_all();
}
