//! Deferring around `fork`.

use core::mem::transmute;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::OnceLock;
use std::thread;

use sheaves_rcu::Srcu;
use sheaves_rcu::defer::{Channel, Head, barrier, flush, reclaim, statistics as deferred};
use sheaves_sys::topology::Affinity;

use crate::{
    Object, Reader, all_called, allocations_in, alone, children, count_call, free_later,
    free_object, happens_within, is_own, object_of, pass_own, wait_until,
};

static CHANNEL: Channel = Channel::new("forks", free_object);

/// A child that takes longer hangs, and is killed.
const LIMIT: Duration = Duration::from_secs(30);

fn in_child(body: impl FnOnce() -> bool) -> bool {
    children::in_child(LIMIT, body)
}

#[test]
fn a_child_keeps_what_is_pending() {
    let _alone = alone();
    let (calls, frees) = (Object::many(1000), Object::many(1000));
    let reader = Reader::start();
    calls.iter().for_each(Object::defer);
    frees.iter().for_each(|object| free_later(&CHANNEL, object, 8));
    // The reader is not in the child: the objects are freed there, and not here.
    let ok = in_child(|| {
        let mut ok = false;
        let allocations = allocations_in(|| ok = barrier().is_ok());
        ok && allocations == 0 && all_called(calls, 1) && all_called(frees, 1)
    });
    assert!(ok);
    assert!(all_called(calls, 0) && all_called(frees, 0));
    let polled = in_child(|| {
        while !(all_called(calls, 1) && all_called(frees, 1)) {
            reclaim();
        }
        true
    });
    assert!(polled);
    drop(reader);
    barrier().unwrap();
    assert!(all_called(calls, 1) && all_called(frees, 1));
}

#[test]
fn a_child_has_a_reclaimer_of_its_own_when_it_defers() {
    let _alone = alone();
    let (early, late) = (Object::many(10), Object::many(10));
    let reader = Reader::start();
    early.iter().for_each(Object::defer);
    let ok = in_child(|| {
        late.iter().for_each(Object::defer);
        flush();
        // The program does not poll or wait.
        wait_until("calls in a child", || all_called(early, 1) && all_called(late, 1));
        deferred().sealed.objects == 0
    });
    assert!(ok);
    drop(reader);
}

/// The child pushes onto the sheaf that its parent has begun, which arms nothing by itself.
#[test]
fn a_child_that_defers_once_reclaims_what_it_inherits() {
    let _alone = alone();
    if !is_own() {
        let test = "forks::a_child_that_defers_once_reclaims_what_it_inherits";
        let engines = [[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "1")], [AGE, AGE]];
        engines.iter().for_each(|engine| _ = pass_own(test, &[&engine[..], &[AGE]].concat()));
        return;
    }
    let defers: [fn(&'static Object); 2] =
        [Object::defer, |object| free_later(&CHANNEL, object, 8)];
    for defer in defers {
        let (early, late) = (&Object::many(1)[0], &Object::many(1)[0]);
        defer(early);
        let ok = in_child(|| {
            defer(late);
            happens_within(Duration::from_secs(10), || early.calls() == 1 && late.calls() == 1)
        });
        barrier().unwrap();
        assert!(ok && early.calls() == 1 && late.calls() == 0);
    }
}

/// Longer than the tests: nothing is sealed by its age.
const AGE: (&str, &str) = ("SHEAVES_RCU_AGE_MS", "60000");

#[test]
fn a_call_may_fork() {
    let _alone = alone();
    static CHILD: AtomicI32 = AtomicI32::new(0);
    static IS_CHILD: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn fork_here(head: *mut Head) {
        // SAFETY: the child goes on as the reclaimer, and the other callback ends it by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            IS_CHILD.store(true, Ordering::SeqCst);
        } else {
            CHILD.store(child, Ordering::SeqCst);
        }
        // SAFETY: the head of an object that is never freed.
        unsafe { count_call(head) };
    }
    unsafe extern "C" fn last(head: *mut Head) {
        object_of(head).calls.fetch_add(1, Ordering::SeqCst);
        if IS_CHILD.load(Ordering::SeqCst) {
            Object::many(1)[0].defer_to(exit);
        }
    }
    unsafe extern "C" fn exit(_: *mut Head) {
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let objects = Object::many(2);
    let reader = Reader::start();
    objects[0].defer_to(fork_here);
    objects[1].defer_to(last);
    drop(reader);
    barrier().unwrap();
    assert!(all_called(objects, 1));
    // The child has gone on where it was. The callback that was pending beside the one that forked
    // has deferred another, which has ended the child.
    assert!(children::has_succeeded(CHILD.load(Ordering::SeqCst), LIMIT));
}

/// A worker is bound to one CPU, and the child of its callback is not.
#[test]
fn the_child_of_a_call_may_use_the_cpus_of_its_program() {
    static CHILD: AtomicI32 = AtomicI32::new(0);
    fn cpus() -> usize {
        Affinity::current().map_or(0, |allowed| allowed.cpu_ids().count())
    }
    unsafe extern "C" fn fork_here(head: *mut Head) {
        let (bound, allowed) = (cpus(), Affinity::of(std::process::id().cast_signed()));
        assert_eq!(bound, 1, "no worker");
        // SAFETY: the child makes one system call, and ends below.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(Affinity::current() != allowed)) };
        }
        CHILD.store(child, Ordering::SeqCst);
        // SAFETY: the head of an object that is never freed.
        unsafe { count_call(head) };
    }
    let _alone = alone();
    if !is_own() {
        let test = "forks::the_child_of_a_call_may_use_the_cpus_of_its_program";
        pass_own(test, &[("SHEAVES_RCU_RECLAIMERS", "slots")]);
        return;
    }
    let objects = Object::many(1);
    objects[0].defer_to(fork_here);
    // By the library's thread and its workers.
    wait_until("the call", || all_called(objects, 1));
    assert!(children::has_succeeded(CHILD.load(Ordering::SeqCst), LIMIT));
}

/// The child of `_Fork`, which runs no handlers, may use them when the callback has ended.
#[test]
fn the_unprepared_child_of_a_call_may_use_the_cpus_of_its_program() {
    static CHILD: AtomicI32 = AtomicI32::new(0);
    static DOMAIN: OnceLock<Srcu> = OnceLock::new();
    static OBJECT: Object = Object::new();
    /// `_Fork`, where libc has it; `fork` elsewhere.
    fn fork_without_handlers() -> i32 {
        // SAFETY: the name is a C string.
        let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_Fork".as_ptr()) };
        let function = if function.is_null() { libc::fork as *const () } else { function.cast() };
        // SAFETY: both are of this type.
        let function = unsafe { transmute::<*const (), unsafe extern "C" fn() -> i32>(function) };
        // SAFETY: the child goes on as its reclaimer, and ends by `_exit`.
        unsafe { function() }
    }
    fn main_may_use() -> usize {
        let main = Affinity::of(std::process::id().cast_signed());
        main.map_or(0, |allowed| allowed.cpu_ids().count())
    }
    static ALLOWED: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn fork_here(head: *mut Head) {
        ALLOWED.store(main_may_use(), Ordering::SeqCst);
        let child = fork_without_handlers();
        if child == 0 {
            // Runs when the worker has become the reclaimer of the child.
            // SAFETY: a static head, which is deferred once.
            unsafe { DOMAIN.get().unwrap().call((&raw const OBJECT.head).cast_mut(), exit) };
            return;
        }
        CHILD.store(child, Ordering::SeqCst);
        // SAFETY: the head of an object that is never freed.
        unsafe { count_call(head) };
    }
    unsafe extern "C" fn exit(_: *mut Head) {
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(main_may_use() != ALLOWED.load(Ordering::SeqCst))) };
    }
    let _alone = alone();
    if !is_own() {
        let test = "forks::the_unprepared_child_of_a_call_may_use_the_cpus_of_its_program";
        pass_own(test, &[("SHEAVES_RCU_RECLAIMERS", "slots")]);
        return;
    }
    DOMAIN.get_or_init(|| Srcu::new().unwrap());
    let objects = Object::many(1);
    objects[0].defer_to(fork_here);
    // By the library's thread and its workers.
    wait_until("the call", || all_called(objects, 1));
    assert!(children::has_succeeded(CHILD.load(Ordering::SeqCst), LIMIT));
}

/// A callback that another thread ran at the fork does not run in the child.
#[test]
fn a_child_does_not_report_the_call_of_another_thread() {
    static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
    static MAY_END: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn wait(_: *mut Head) {
        HAS_BEGUN.store(true, Ordering::SeqCst);
        wait_until("the child", || MAY_END.load(Ordering::SeqCst));
    }
    let _alone = alone();
    if !is_own() {
        let test = "forks::a_child_does_not_report_the_call_of_another_thread";
        // In the child nothing runs that would end the note of a callback.
        let options = [("SHEAVES_RCU_RECLAIMERS", "0"), ("SHEAVES_RCU_STALL_MS", "20")];
        let text = pass_own(test, &options);
        assert!(!text.contains("has been running"), "{text}");
        return;
    }
    Object::many(1)[0].defer_to(wait);
    thread::scope(|scope| {
        scope.spawn(|| barrier().unwrap());
        wait_until("the call", || HAS_BEGUN.load(Ordering::SeqCst));
        let ok = in_child(|| {
            // Each is as large as a full sheaf, and threads that seal look for late callbacks.
            for object in Object::many(10) {
                free_later(&CHANNEL, object, 1 << 20);
                thread::sleep(Duration::from_millis(10));
            }
            true
        });
        MAY_END.store(true, Ordering::SeqCst);
        assert!(ok);
    });
}

#[test]
fn forks_beside_everything() {
    let _alone = alone();
    static STOP: AtomicBool = AtomicBool::new(false);
    STOP.store(false, Ordering::SeqCst);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !STOP.load(Ordering::Relaxed) {
                    let objects = Object::many(300);
                    objects.iter().take(150).for_each(Object::defer);
                    objects.iter().skip(150).for_each(|o| free_later(&CHANNEL, o, 8));
                    barrier().unwrap();
                    assert!(all_called(objects, 1));
                }
            });
        }
        for _ in 0..30 {
            let objects = Object::many(10);
            let ok = in_child(|| {
                objects.iter().for_each(Object::defer);
                barrier().is_ok() && all_called(objects, 1)
            });
            assert!(ok);
        }
        STOP.store(true, Ordering::SeqCst);
    });
}
