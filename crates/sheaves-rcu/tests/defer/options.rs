//! Options, each in its own process; reports are checked by what they write.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::collections::HashSet;
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use sheaves_rcu::defer::{Head, barrier, reclaim, statistics as deferred};

use crate::{Object, all_called, alone, is_own, object_of, pass_own, wait_until};

#[test]
fn without_a_reclaimer_the_program_polls() {
    let _alone = alone();
    if !is_own() {
        let options = [("SHEAVES_RCU_RECLAIMERS", "0"), ("SHEAVES_RCU_AGE_MS", "1")];
        pass_own("options::without_a_reclaimer_the_program_polls", &options);
        return;
    }
    static HERE: Mutex<Option<ThreadId>> = Mutex::new(None);
    unsafe extern "C" fn note(head: *mut Head) {
        *HERE.lock().unwrap() = Some(thread::current().id());
        object_of(head).calls.fetch_add(1, Ordering::SeqCst);
    }
    let objects = Object::many(5000);
    objects.iter().for_each(|object| object.defer_to(note));
    thread::sleep(Duration::from_millis(50));
    assert!(all_called(objects, 0), "another thread has called");
    wait_until("polling", || {
        reclaim();
        all_called(objects, 1)
    });
    assert_eq!(*HERE.lock().unwrap(), Some(thread::current().id()));
    objects.iter().for_each(Object::defer);
    barrier().unwrap();
    assert!(all_called(objects, 2) && !reclaim());
    assert_eq!(deferred().reclaimer_sleeps, 0);
}

/// Callbacks of one slot run in one thread, in order; several slots use several threads.
#[test]
fn calls_of_slots_run_in_threads_of_their_own() {
    const SLOTS: usize = 8;
    const EACH: usize = 500;
    let _alone = alone();
    if !is_own() {
        let options = [
            ("SHEAVES_RCU_RECLAIMERS", "slots"),
            ("SHEAVES_ENGINE", "portable"),
            ("SHEAVES_SLOTS", "8"),
        ];
        pass_own("options::calls_of_slots_run_in_threads_of_their_own", &options);
        return;
    }
    static CALLED: Mutex<Vec<(usize, ThreadId, String)>> = Mutex::new(Vec::new());
    unsafe extern "C" fn note(head: *mut Head) {
        let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        CALLED.lock().unwrap().push((head.addr(), thread::current().id(), name));
    }
    let objects = Object::many(SLOTS * EACH);
    thread::scope(|scope| {
        for objects in objects.chunks(EACH) {
            scope.spawn(move || objects.iter().for_each(|object| object.defer_to(note)));
        }
    });
    barrier().unwrap();
    let called = CALLED.lock().unwrap();
    assert_eq!(called.len(), objects.len());
    assert!(called.iter().all(|(_, _, name)| name.trim() == "sheaves-rcu-run"));
    let processors = thread::available_parallelism().unwrap().get().min(SLOTS);
    let distinct = called.iter().map(|(_, thread, _)| thread).collect::<HashSet<_>>().len();
    assert!(distinct >= processors.min(2), "{distinct} threads");
    for objects in objects.chunks(EACH) {
        let addresses = objects.iter().map(|object| (&raw const object.head).addr());
        let those: HashSet<_> = addresses.clone().collect();
        let of_slot = called.iter().filter(|(head, _, _)| those.contains(head));
        assert!(of_slot.clone().map(|(head, _, _)| *head).eq(addresses), "out of order");
        assert_eq!(of_slot.map(|(_, thread, _)| thread).collect::<HashSet<_>>().len(), 1);
    }
}

#[test]
fn an_idle_program_is_not_woken() {
    let _alone = alone();
    if !is_own() {
        pass_own("options::an_idle_program_is_not_woken", &[]);
        return;
    }
    let objects = Object::many(500);
    objects.iter().for_each(Object::defer);
    barrier().unwrap();
    // An age bound that was armed before the barrier causes one more check, which is late where the
    // machine is busy.
    let is_at_rest = || {
        let work = || (deferred().reclaimer_sleeps, deferred().grace_periods_asked);
        let before = work();
        thread::sleep(Duration::from_secs(2));
        before == work()
    };
    assert!((0..3).any(|_| is_at_rest()), "it wakes again and again");
}

#[test]
fn nonsense_is_reported() {
    let _alone = alone();
    let test = "options::nonsense_is_reported";
    if !is_own() {
        let text = pass_own(test, &[("SHEAVES_RCU_AGE_MS", "soon")]);
        assert!(text.contains("SHEAVES_RCU_AGE_MS=soon is ignored"), "{text}");
        let text = pass_own(test, &[("SHEAVES_RCU_BYTES", "4095")]);
        assert!(text.contains("SHEAVES_RCU_BYTES=4095 is ignored"), "{text}");
        return;
    }
    let objects = Object::many(10);
    objects.iter().for_each(Object::defer);
    wait_until("calls", || all_called(objects, 1));
}

#[test]
fn a_call_that_does_not_return_is_named() {
    let _alone = alone();
    let test = "options::a_call_that_does_not_return_is_named";
    if !is_own() {
        let text = pass_own(test, &[("SHEAVES_RCU_STALL_MS", "100")]);
        let named = text.lines().filter(|line| line.contains("has been running for"));
        assert_eq!(named.count(), 1, "{text}");
        return;
    }
    static MAY_RETURN: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn hang(head: *mut Head) {
        while !MAY_RETURN.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        object_of(head).calls.fetch_add(1, Ordering::SeqCst);
    }
    let objects = Object::many(1);
    objects[0].defer_to(hang);
    thread::spawn(|| {
        thread::sleep(Duration::from_millis(800));
        MAY_RETURN.store(true, Ordering::SeqCst);
    });
    barrier().unwrap();
    assert!(all_called(objects, 1));
}
