//! Threads that are the driver one after the other, with and without a reclaimer.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use sheaves_rcu::defer::{Head, barrier, before_sandbox, reclaim, statistics as deferred};
use sheaves_rcu::synchronize;
use sheaves_sys::sandbox;

use crate::{Object, all_called, alone, count_call, is_own, pass_own, wait_until};

/// The workers end only when no driver waits for them: no other thread runs their calls beside
/// them.
#[test]
fn workers_are_not_stopped_below_a_driver() {
    static IS_RUNNING: AtomicBool = AtomicBool::new(false);
    static MAY_RETURN: AtomicBool = AtomicBool::new(false);
    static OVERLAPS: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn run_alone(head: *mut Head) {
        if IS_RUNNING.swap(true, Ordering::SeqCst) {
            OVERLAPS.fetch_add(1, Ordering::SeqCst);
            return;
        }
        wait_until("the end of the call", || MAY_RETURN.load(Ordering::SeqCst));
        IS_RUNNING.store(false, Ordering::SeqCst);
        // SAFETY: the head of an object that is never freed.
        unsafe { count_call(head) };
    }
    let _alone = alone();
    if !is_own() {
        let options = [("SHEAVES_RCU_RECLAIMERS", "slots"), ("SHEAVES_RCU_AGE_MS", "60000")];
        pass_own("drivers::workers_are_not_stopped_below_a_driver", &options);
        return;
    }
    // From here on there are workers.
    Object::many(1)[0].defer();
    barrier().unwrap();
    // Until the sheaf of a slot is full. The age bound seals none.
    let objects = Object::many(10_000);
    let deferred_now = objects.iter().take_while(|object| {
        let is_open = deferred().sealed.objects == 0;
        if is_open {
            object.defer_to(run_alone);
        }
        is_open
    });
    let objects = &objects[..deferred_now.count()];
    thread::scope(|scope| {
        scope.spawn(|| {
            synchronize().unwrap();
            while !objects.iter().any(|object| object.calls() > 0) {
                reclaim();
            }
        });
        wait_until("a call", || IS_RUNNING.load(Ordering::SeqCst));
        // The library's thread ends its workers, as far as it may.
        before_sandbox();
        MAY_RETURN.store(true, Ordering::SeqCst);
    });
    assert_eq!(OVERLAPS.load(Ordering::SeqCst), 0, "calls ran beside each other");
    barrier().unwrap();
    assert!(all_called(objects, 1));
}

/// A thread makes system calls in the destructors of its variables, after its function. A sandbox
/// would end the process for them.
#[test]
fn workers_have_ended_before_a_sandbox() {
    const CALLS: usize = 100;
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    struct Variable;
    impl Drop for Variable {
        fn drop(&mut self) {
            thread::sleep(Duration::from_millis(100));
            ENDED.fetch_add(1, Ordering::SeqCst);
        }
    }
    thread_local! {
        static VARIABLE: Variable = {
            BEGUN.fetch_add(1, Ordering::SeqCst);
            Variable
        };
    }
    unsafe extern "C" fn use_variable(head: *mut Head) {
        VARIABLE.with(|_| ());
        // SAFETY: the head of an object that is never freed.
        unsafe { count_call(head) };
    }
    let _alone = alone();
    if !is_own() {
        let options = [("SHEAVES_RCU_RECLAIMERS", "slots")];
        pass_own("drivers::workers_have_ended_before_a_sandbox", &options);
        return;
    }
    let objects = Object::many(CALLS);
    objects.iter().for_each(|object| object.defer_to(use_variable));
    // By the library's thread and its workers.
    wait_until("the calls", || all_called(objects, 1));
    before_sandbox();
    let (begun, ended) = (BEGUN.load(Ordering::SeqCst), ENDED.load(Ordering::SeqCst));
    assert!(begun > 0 && begun == ended, "{ended} of {begun} threads have ended");
}

fn spin_for(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        core::hint::spin_loop();
    }
}

/// A callback that runs is waited for longer than one that sleeps, which may wait for the caller.
#[test]
fn a_call_that_runs_has_ended_before_a_sandbox() {
    static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn run_for_long(head: *mut Head) {
        HAS_BEGUN.store(true, Ordering::SeqCst);
        spin_for(Duration::from_millis(2500));
        // SAFETY: the head of an object that is never freed.
        unsafe { count_call(head) };
    }
    let _alone = alone();
    if !is_own() {
        let options = [("SHEAVES_RCU_STALL_MS", "0")];
        pass_own("drivers::a_call_that_runs_has_ended_before_a_sandbox", &options);
        return;
    }
    let objects = Object::many(1);
    objects[0].defer_to(run_for_long);
    // By the library's thread or a worker.
    wait_until("the call", || HAS_BEGUN.load(Ordering::SeqCst));
    before_sandbox();
    assert!(all_called(objects, 1), "it still runs");
}

/// A second thread that is about to enter a sandbox waits for the library's threads, too.
#[test]
fn a_call_has_ended_before_a_sandbox_that_two_threads_announce() {
    static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
    static IS_SECOND: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn outlast_second(head: *mut Head) {
        HAS_BEGUN.store(true, Ordering::SeqCst);
        while !IS_SECOND.load(Ordering::SeqCst) {
            core::hint::spin_loop();
        }
        spin_for(Duration::from_millis(300));
        // SAFETY: the head of an object that is never freed.
        unsafe { count_call(head) };
    }
    let _alone = alone();
    if !is_own() {
        let test = "drivers::a_call_has_ended_before_a_sandbox_that_two_threads_announce";
        pass_own(test, &[("SHEAVES_RCU_STALL_MS", "0")]);
        return;
    }
    let objects = Object::many(1);
    objects[0].defer_to(outlast_second);
    // By the library's thread or a worker.
    wait_until("the call", || HAS_BEGUN.load(Ordering::SeqCst));
    thread::scope(|scope| {
        scope.spawn(before_sandbox);
        wait_until("the first one", sandbox::is_entered);
        IS_SECOND.store(true, Ordering::SeqCst);
        before_sandbox();
        assert!(all_called(objects, 1), "it still runs");
    });
}
