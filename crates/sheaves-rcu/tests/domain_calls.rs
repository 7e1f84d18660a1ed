//! Callbacks of SRCU domains: nothing before its readers, everything once, nothing held up.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, sleep};
use std::time::Instant;

use sheaves_rcu::defer::{self, BarrierError, Head, call_rcu, reclaim};
use sheaves_rcu::{Srcu, read};

mod children;
#[expect(dead_code, reason = "shared with other test programs, which use all of it")]
mod configurations;
#[path = "../../sheaves-percpu/tests/transactions/own_process.rs"]
mod own_process;

const MS: Duration = Duration::from_millis(1);

fn domain() -> &'static Srcu {
    Box::leak(Box::new(Srcu::new().unwrap()))
}

/// Forks and barriers concern the whole process: one test runs at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn counter() -> (Arc<AtomicUsize>, impl Fn() -> usize) {
    let count = Arc::new(AtomicUsize::new(0));
    let read = Arc::clone(&count);
    (count, move || read.load(Ordering::SeqCst))
}

fn defer_count(domain: &'static Srcu, count: &Arc<AtomicUsize>) {
    let count = Arc::clone(count);
    domain.defer(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
}

fn wait_until(what: &str, has_happened: impl Fn() -> bool) {
    let begin = Instant::now();
    while !has_happened() {
        assert!(begin.elapsed() < Duration::from_secs(60), "never happened: {what}");
        sleep(MS);
    }
}

#[test]
fn callbacks_run_after_sections_and_without_a_barrier() {
    let _alone = alone();
    let (domain, (count, ran)) = (domain(), counter());
    let guard = domain.read();
    for _ in 0..100 {
        defer_count(domain, &count);
    }
    sleep(100 * MS);
    assert!(ran() == 0 && !domain.is_idle());
    assert!(defer::statistics().domain_calls.objects >= 100);
    // In another thread.
    thread::scope(|scope| {
        scope.spawn(|| drop(guard));
    });
    wait_until("callbacks", || ran() == 100 && domain.is_idle());
}

#[test]
fn barriers_wait_for_what_was_deferred_before() {
    let _alone = alone();
    let domain = domain();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..50 {
                    let (count, ran) = counter();
                    let guard = domain.read();
                    (0..round).for_each(|_| defer_count(domain, &count));
                    drop(guard);
                    domain.barrier().unwrap();
                    assert_eq!(ran(), round);
                }
            });
        }
    });
    assert!(domain.is_idle());
}

#[test]
fn callbacks_run_in_their_order() {
    let _alone = alone();
    let domain = domain();
    let order = Arc::new(Mutex::new(Vec::new()));
    for number in 0..1000 {
        let order = Arc::clone(&order);
        domain.defer(move || order.lock().unwrap().push(number));
        if number % 100 == 0 {
            domain.synchronize();
        }
    }
    domain.barrier().unwrap();
    assert!(order.lock().unwrap().iter().copied().eq(0..1000));
}

#[test]
fn a_long_section_delays_its_own_domain_only() {
    let _alone = alone();
    let (slow, fast) = (domain(), domain());
    let (slow_count, slow_ran) = counter();
    let (fast_count, fast_ran) = counter();
    let guard = slow.read();
    defer_count(slow, &slow_count);
    for round in 1..=20 {
        defer_count(fast, &fast_count);
        fast.barrier().unwrap();
        let freed = Arc::new(AtomicBool::new(false));
        let free = Arc::clone(&freed);
        defer::defer(move || free.store(true, Ordering::SeqCst));
        // Inside a section of the domain.
        defer::barrier().unwrap();
        assert!(freed.load(Ordering::SeqCst) && fast_ran() == round && slow_ran() == 0);
    }
    // The age bound is enough for both.
    defer_count(fast, &fast_count);
    let (other, other_ran) = counter();
    defer::defer(move || {
        other.fetch_add(1, Ordering::SeqCst);
    });
    wait_until("callbacks beside a long section", || fast_ran() == 21 && other_ran() == 1);
    assert_eq!(slow_ran(), 0);
    drop(guard);
    slow.barrier().unwrap();
    assert_eq!(slow_ran(), 1);
}

#[test]
fn callbacks_may_call_again() {
    let _alone = alone();
    fn again(domain: &'static Srcu, left: usize, count: Arc<AtomicUsize>) {
        count.fetch_add(1, Ordering::SeqCst);
        if left > 0 {
            domain.defer(move || again(domain, left - 1, count));
        }
    }
    let (domain, other, (count, ran)) = (domain(), domain(), counter());
    let counts = [Arc::clone(&count), count];
    let [first, second] = counts;
    domain.defer(move || again(domain, 10, first));
    domain.defer(move || again(other, 10, second));
    while ran() < 22 {
        domain.barrier().unwrap();
        other.barrier().unwrap();
    }
    wait_until("idle domains", || domain.is_idle() && other.is_idle());
}

/// The head of an object may be deferred again by its own callback.
#[test]
fn one_head_goes_round() {
    let _alone = alone();
    static DOMAIN: AtomicPtr<Srcu> = AtomicPtr::new(core::ptr::null_mut());
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn again(head: *mut Head) {
        if RUNS.fetch_add(1, Ordering::SeqCst) < 4 {
            // SAFETY: a domain that is never freed.
            let domain = unsafe { &*DOMAIN.load(Ordering::SeqCst) };
            // SAFETY: an idle head that is never freed.
            unsafe { domain.call(head, again) };
        }
    }
    let (domain, head) = (domain(), Box::leak(Box::new(Head::new())));
    DOMAIN.store(core::ptr::from_ref(domain).cast_mut(), Ordering::SeqCst);
    // SAFETY: an idle head that is never freed.
    unsafe { domain.call(head, again) };
    wait_until("five runs", || RUNS.load(Ordering::SeqCst) == 5 && domain.is_idle());
}

#[test]
fn waits_that_would_deadlock_are_refused() {
    let _alone = alone();
    static ANSWERS: Mutex<Vec<Result<(), BarrierError>>> = Mutex::new(Vec::new());
    let domain = domain();
    let ask = || ANSWERS.lock().unwrap().push(domain.barrier());
    domain.defer(move || {
        ask();
        ANSWERS.lock().unwrap().push(defer::barrier());
    });
    defer::defer(ask);
    domain.barrier().unwrap();
    defer::barrier().unwrap();
    assert_eq!(*ANSWERS.lock().unwrap(), [Err(BarrierError::InsideCall); 3]);
    let guard = read();
    assert_eq!(domain.barrier(), Err(BarrierError::InsideReader));
    drop(guard);
    domain.barrier().unwrap();
}

/// Never freed, so that what is used too late can be seen.
struct Object {
    _head: Head,
    is_alive: AtomicBool,
}

static ENDED: AtomicUsize = AtomicUsize::new(0);

impl Object {
    fn make() -> *mut Object {
        let object = Object { _head: Head::new(), is_alive: AtomicBool::new(true) };
        Box::into_raw(Box::new(object))
    }

    unsafe extern "C" fn end(head: *mut Head) {
        // SAFETY: the head is first in an object that is never freed.
        let object = unsafe { &*head.cast::<Object>() };
        assert!(object.is_alive.swap(false, Ordering::Relaxed), "called twice");
        ENDED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads in sections, some of which sleep. Returns their number.
fn read_until(stop: &AtomicBool, domain: &Srcu, current: &AtomicPtr<Object>) -> usize {
    let mut reads = 0;
    while !stop.load(Ordering::Relaxed) {
        let guard = domain.read();
        // SAFETY: objects are never freed.
        let object = unsafe { &*current.load(Ordering::Acquire) };
        match reads % 64 {
            0 => sleep(2 * MS),
            8 | 16 | 24 => thread::yield_now(),
            _ => {}
        }
        assert!(object.is_alive.load(Ordering::Relaxed), "ended before its reader");
        drop(guard);
        reads += 1;
    }
    reads
}

#[test]
fn readers_beside_callbacks() {
    let _alone = alone();
    let domains = [domain(), domain()];
    let current = [const { AtomicPtr::new(core::ptr::null_mut()) }; 2];
    current.iter().for_each(|current| current.store(Object::make(), Ordering::Release));
    let (stop, updates) = (AtomicBool::new(false), AtomicUsize::new(0));
    let update = |domain: &'static Srcu, current: &AtomicPtr<Object>| {
        while !stop.load(Ordering::Relaxed) {
            let old = current.swap(Object::make(), Ordering::AcqRel);
            // SAFETY: objects are never freed, and this one was unlinked.
            unsafe { domain.call(old.cast(), Object::end) };
            if updates.fetch_add(1, Ordering::Relaxed) % 16 == 0 {
                sleep(MS);
            }
        }
    };
    thread::scope(|scope| {
        let (stop, update) = (&stop, &update);
        for (domain, current) in domains.into_iter().zip(&current) {
            for _ in 0..2 {
                scope.spawn(move || println!("{} reads", read_until(stop, domain, current)));
            }
            scope.spawn(move || update(domain, current));
        }
        // Others that lead, in the middle of polls; at times none does.
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                (0..20).for_each(|round| domains[round % 2].synchronize());
                sleep(5 * MS);
            }
        });
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                domains.iter().for_each(|domain| domain.barrier().unwrap());
            }
        });
        sleep(1000 * MS);
        stop.store(true, Ordering::Relaxed);
    });
    domains.iter().for_each(|domain| domain.barrier().unwrap());
    assert_eq!(ENDED.load(Ordering::Relaxed), updates.load(Ordering::Relaxed));
}

#[test]
fn a_child_keeps_what_is_pending() {
    let _alone = alone();
    let (domain, (count, ran)) = (domain(), counter());
    let limit = Duration::from_secs(30);
    let guard = domain.read();
    (0..100).for_each(|_| defer_count(domain, &count));
    // Once not sealed, once with a grace period under way: all of it ends in the child.
    for pause in [Duration::ZERO, 60 * MS] {
        sleep(pause);
        assert!(children::in_child(limit, || domain.barrier().is_ok() && ran() == 100));
        assert!(children::in_child(limit, || {
            while ran() < 100 {
                reclaim();
            }
            true
        }));
        assert!(children::in_child(limit, || {
            defer_count(domain, &count);
            // The child's own reclaimer does the rest.
            wait_until("callbacks in a child", || ran() == 101);
            // The thread that has called them notes that behind the last one.
            wait_until("the end of the round", || domain.is_idle());
            true
        }));
        assert_eq!(ran(), 0);
    }
    drop(guard);
    domain.barrier().unwrap();
    assert_eq!(ran(), 100);
}

/// A callback that another thread runs at the fork is not called again, and not waited for.
#[test]
fn a_child_does_not_wait_for_the_callback_of_another_thread() {
    let _alone = alone();
    let (domain, (count, ran)) = (domain(), counter());
    let (begun, go_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (has_begun, may_go_on) = (Arc::clone(&begun), Arc::clone(&go_on));
    domain.defer(move || {
        has_begun.store(true, Ordering::SeqCst);
        wait_until("the fork", || may_go_on.load(Ordering::SeqCst));
        count.fetch_add(1, Ordering::SeqCst);
    });
    wait_until("the callback", || begun.load(Ordering::SeqCst));
    let in_child = || domain.barrier().is_ok() && domain.is_idle() && ran() == 0;
    assert!(children::in_child(Duration::from_secs(30), in_child));
    go_on.store(true, Ordering::SeqCst);
    domain.barrier().unwrap();
    assert_eq!(ran(), 1);
}

#[test]
fn forks_beside_callbacks() {
    let _alone = alone();
    let (shared, stop) = (domain(), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let (count, ran) = counter();
                    let guard = shared.read();
                    (0..5000).for_each(|_| defer_count(shared, &count));
                    drop(guard);
                    shared.barrier().unwrap();
                    assert_eq!(ran(), 5000);
                }
            });
        }
        for _ in 0..30 {
            let ok = children::in_child(Duration::from_secs(30), || {
                let (count, ran) = counter();
                (0..10).for_each(|_| defer_count(shared, &count));
                drop(shared.read());
                // What another thread was running at the fork counts as done.
                shared.barrier().is_ok() && ran() == 10 && shared.is_idle()
            });
            assert!(ok);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Beside ordinary callbacks, in the loop of a program without a reclaimer.
#[test]
fn reclaim_runs_callbacks() {
    if std::env::var_os("SHEAVES_RCU_RECLAIMERS").is_none() {
        own_process::pass("reclaim_runs_callbacks", &[("SHEAVES_RCU_RECLAIMERS", "0")]);
        return;
    }
    static CALLED: AtomicBool = AtomicBool::new(false);
    static HEAD: Head = Head::new();
    unsafe extern "C" fn called(_: *mut Head) {
        CALLED.store(true, Ordering::SeqCst);
    }
    let (domain, (count, ran)) = (domain(), counter());
    let guard = domain.read();
    defer_count(domain, &count);
    // SAFETY: an idle head that is never freed.
    unsafe { call_rcu((&raw const HEAD).cast_mut(), called) };
    wait_until("an ordinary callback", || {
        reclaim();
        CALLED.load(Ordering::SeqCst)
    });
    (0..50).for_each(|_| {
        reclaim();
        sleep(MS);
    });
    assert_eq!(ran(), 0);
    drop(guard);
    wait_until("a callback of the domain", || {
        reclaim();
        ran() == 1
    });
    defer_count(domain, &count);
    domain.barrier().unwrap();
    assert_eq!(ran(), 2);
}

#[test]
fn in_every_configuration() {
    configurations::run_all();
}
