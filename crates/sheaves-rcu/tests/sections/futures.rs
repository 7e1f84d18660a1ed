//! Awaiting cookies.

use core::future::Future;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::Wake;
use std::time::Instant;

use sheaves_rcu::defer::{BarrierError, barrier};
use sheaves_rcu::{Cookie, Finished, Srcu};

use crate::configurations::{in_own_process, seccomp};
use crate::leaks::until;
use crate::{Reader, alone, children};

/// How often a thread in [`block_on`] was about to sleep.
static PARKED: AtomicUsize = AtomicUsize::new(0);

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end in this thread.
fn block_on(future: impl Future<Output = ()>) {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    let mut context = Context::from_waker(&waker);
    while future.as_mut().poll(&mut context).is_pending() {
        PARKED.fetch_add(1, Ordering::SeqCst);
        std::thread::park();
    }
}

/// Counts how often it is woken.
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// It is polled when it has been woken only, so that no other wake-up of the thread helps it.
#[test]
fn a_future_is_woken_when_readers_are_gone() {
    let _alone = alone();
    let reader = Reader::start();
    let cookie = Cookie::get();
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(cookie.finished());
    assert!(future.as_mut().poll(&mut context).is_pending());
    drop(reader);
    let mut seen = 0;
    loop {
        until(|| count.0.load(Ordering::SeqCst) > seen);
        seen = count.0.load(Ordering::SeqCst);
        if future.as_mut().poll(&mut context).is_ready() {
            break;
        }
    }
    assert!(cookie.poll());
}

/// It would wait for the thread that runs it.
#[test]
fn a_barrier_in_a_waker_is_refused() {
    struct Ask(Sender<Result<(), BarrierError>>);
    impl Wake for Ask {
        fn wake(self: Arc<Self>) {
            self.0.send(barrier()).expect("the test waits");
        }
    }
    let _alone = alone();
    sheaves_rcu::defer(|| ());
    barrier().unwrap();
    if sheaves_rcu::internal::reclaimer_thread().is_none() {
        return;
    }
    let (sender, answers) = channel();
    let waker = Waker::from(Arc::new(Ask(sender)));
    let reader = Reader::start();
    let mut future = pin!(Cookie::get().finished());
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(reader);
    let answer = answers.recv_timeout(Duration::from_secs(20)).expect("it returns");
    assert_eq!(answer, Err(BarrierError::InsideCall));
    barrier().unwrap();
}

/// The thread that would wake it runs the call or the waker that awaits it.
#[test]
fn a_future_may_be_awaited_in_a_call_and_in_a_waker() {
    struct Await(Sender<()>);
    impl Wake for Await {
        fn wake(self: Arc<Self>) {
            await_behind_a_reader();
            self.0.send(()).expect("the test waits");
        }
    }
    let _alone = alone();
    let (sender, ends) = channel();
    let waker = Waker::from(Arc::new(Await(sender.clone())));
    sheaves_rcu::defer(|| ());
    barrier().unwrap();
    if sheaves_rcu::internal::reclaimer_thread().is_none() {
        return;
    }
    sheaves_rcu::defer(move || {
        await_behind_a_reader();
        sender.send(()).expect("the test waits");
    });
    ends.recv_timeout(Duration::from_secs(20)).expect("the call does not end");
    let reader = Reader::start();
    let mut future = pin!(Cookie::get().finished());
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(reader);
    ends.recv_timeout(Duration::from_secs(20)).expect("the waker does not end");
}

/// Awaits a grace period whose reader leaves when this thread is about to sleep.
fn await_behind_a_reader() {
    let (before, reader) = (PARKED.load(Ordering::SeqCst), Reader::start());
    // A scope would unpark this thread at the end of that one.
    let other = std::thread::spawn(move || {
        while PARKED.load(Ordering::SeqCst) == before {
            std::thread::yield_now();
        }
        drop(reader);
    });
    block_on(Cookie::get().finished());
    other.join().expect("it drops the reader");
}

#[test]
fn many_futures_in_many_threads() {
    let _alone = alone();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..if cfg!(miri) { 5 } else { 200 } {
                    block_on(Cookie::get().finished());
                }
            });
        }
    });
}

#[test]
fn a_future_may_be_dropped_while_it_waits() {
    let _alone = alone();
    let reader = Reader::start();
    for _ in 0..10 {
        let futures: Vec<_> = (0..10).map(|_| Box::pin(Cookie::get().finished())).collect();
        let mut context = Context::from_waker(Waker::noop());
        for mut future in futures {
            assert_eq!(future.as_mut().poll(&mut context), Poll::Pending);
        }
    }
    drop(reader);
    block_on(Cookie::get().finished());
}

#[test]
fn futures_of_several_grace_periods_may_be_polled_and_dropped_in_any_order() {
    let _alone = alone();
    let mut random = 0x9e37_79b9_u64;
    let mut below = |count: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % count
    };
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut waiting: Vec<Pin<Box<Finished>>> = Vec::new();
    let (rounds, count) = if cfg!(miri) { (2, 40) } else { (20, 400) };
    for _ in 0..rounds {
        let reader = Reader::start();
        let mut new: Vec<_> = (0..count).map(|_| Box::pin(Cookie::get().finished())).collect();
        while !new.is_empty() {
            let future = new.swap_remove(below(new.len()));
            waiting.push(future);
            assert!(waiting.last_mut().unwrap().as_mut().poll(&mut context).is_pending());
            if below(2) == 0 {
                drop(waiting.swap_remove(below(waiting.len())));
            }
        }
        drop(reader);
    }
    while !waiting.is_empty() {
        waiting.retain_mut(|future| future.as_mut().poll(&mut context).is_pending());
        // Each future that is left wakes this thread.
        if !waiting.is_empty() {
            std::thread::park();
        }
    }
}

#[test]
fn a_future_does_not_wait_for_readers_that_came_later() {
    if in_own_process("futures::a_future_does_not_wait_for_readers_that_came_later") {
        return;
    }
    let first = Reader::start();
    let early = Cookie::start_poll_expedited();
    let late = Cookie::get();
    assert!(early < late && !early.poll());
    // The later grace period is awaited first, and is delayed by the second reader.
    let mut late = Box::pin(late.finished());
    assert!(late.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let second = Reader::start();
    std::thread::sleep(Duration::from_millis(20));
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            block_on(early.finished());
            done.send(()).unwrap();
        });
        std::thread::sleep(Duration::from_millis(20));
        drop(first);
        // It must not wait for the second reader, which ends only below.
        is_done.recv_timeout(Duration::from_secs(20)).expect("the future was not woken");
        drop(second);
    });
    block_on(late);
}

#[test]
fn futures_come_to_their_end_where_no_thread_can_be_started() {
    if in_own_process("futures::futures_come_to_their_end_where_no_thread_can_be_started") {
        return;
    }
    const THREADS: usize = 16;
    let barrier = std::sync::Barrier::new(THREADS);
    let calls = [libc::SYS_clone, libc::SYS_clone3];
    let program = seccomp::program(&calls, libc::EAGAIN);
    // An executor that only its wakers wake: a future that is never woken sleeps until the alarm.
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                if seccomp::install(&program).is_err() {
                    println!("skipped: filters are not permitted here");
                    return;
                }
                for _ in 0..300 {
                    block_on(Cookie::get().finished());
                }
            });
        }
    });
}

/// The library's thread ends in the middle of its work, and leaves no future behind.
#[test]
fn futures_come_to_their_end_in_a_sandbox() {
    if in_own_process("futures::futures_come_to_their_end_in_a_sandbox") {
        return;
    }
    // The library's thread waits for the first grace period.
    two_futures_end(sheaves_rcu::defer::before_sandbox);
}

/// The library's thread does not wait for its own end.
#[test]
fn a_waker_may_announce_a_sandbox() {
    struct Announce(Sender<()>);
    impl Wake for Announce {
        fn wake(self: Arc<Self>) {
            sheaves_rcu::defer::before_sandbox();
            self.0.send(()).expect("the test waits");
        }
    }
    if in_own_process("futures::a_waker_may_announce_a_sandbox") {
        return;
    }
    let (sender, ends) = channel();
    let waker = Waker::from(Arc::new(Announce(sender)));
    let reader = Reader::start();
    let mut future = pin!(Cookie::get().finished());
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(reader);
    ends.recv_timeout(Duration::from_secs(20)).expect("it does not return");
}

/// Visits of a domain whose readers are in the way do not keep the library's thread from futures.
#[test]
fn futures_come_to_their_end_beside_a_long_section_of_a_domain() {
    if in_own_process("futures::futures_come_to_their_end_beside_a_long_section_of_a_domain") {
        return;
    }
    let domain: &Srcu = Box::leak(Box::new(Srcu::new().unwrap()));
    let _guard = domain.read();
    domain.defer(|| ());
    // It is sealed. From this age on the time between two visits is the same, and all of it passes
    // in each sleep, by any clock.
    barrier().unwrap();
    while sheaves_rcu::defer::statistics().oldest_age_ms < 200 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Longer than that time.
    two_futures_end(|| std::thread::sleep(Duration::from_millis(50)));
}

/// Checks that futures of two grace periods are woken, the first of which waits for a reader while
/// `meanwhile` runs.
fn two_futures_end(meanwhile: impl FnOnce()) {
    let reader = Reader::start();
    let early = Cookie::start_poll_expedited();
    let late = Cookie::get();
    assert!(early < late && !early.poll());
    let (done, is_done) = channel();
    for cookie in [early, late] {
        let done = done.clone();
        std::thread::spawn(move || {
            block_on(cookie.finished());
            done.send(()).expect("the test waits");
        });
    }
    let begin = Instant::now();
    while PARKED.load(Ordering::SeqCst) < 2 {
        assert!(begin.elapsed() < Duration::from_secs(20), "no thread waits");
        std::thread::sleep(Duration::from_millis(1));
    }
    meanwhile();
    drop(reader);
    for _ in 0..2 {
        is_done.recv_timeout(Duration::from_secs(20)).expect("a future was not woken");
    }
}

/// The child of a fork does not access the futures of threads that do not exist there, and uses
/// those of the thread that forked.
#[test]
fn a_child_forgets_the_futures_of_other_threads() {
    const THREADS: usize = 4;
    if in_own_process("futures::a_child_forgets_the_futures_of_other_threads") {
        return;
    }
    let reader = Reader::start();
    let cookie = Cookie::get();
    let is_ready = |future: Pin<&mut Finished>| {
        future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    let mut polled = Box::pin(cookie.finished());
    assert!(!is_ready(polled.as_mut()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| block_on(cookie.finished()));
        }
        let begin = Instant::now();
        while PARKED.load(Ordering::SeqCst) < THREADS {
            assert!(begin.elapsed() < Duration::from_secs(20), "no thread waits");
            std::thread::sleep(Duration::from_millis(1));
        }
        // The futures of the other threads are on their stacks, between these two.
        let mut dropped = Box::pin(cookie.finished());
        assert!(!is_ready(dropped.as_mut()));
        let ok = children::in_child(Duration::from_secs(5), move || {
            overwrite_stacks(2 * THREADS);
            drop(dropped);
            let reader = Reader::start();
            let late = Cookie::get();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(20));
                    drop(reader);
                });
                block_on(late.finished());
            });
            block_on(polled);
            late.has_passed() && cookie.has_passed()
        });
        drop(reader);
        assert!(ok);
    });
}

/// Starts threads that overwrite their stacks, which libc reuses from threads that are gone.
fn overwrite_stacks(threads: usize) {
    let barrier = std::sync::Barrier::new(threads);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                barrier.wait();
                let mut stack = [0_u8; 1 << 20];
                core::hint::black_box(&mut stack).fill(0xa5);
                core::hint::black_box(&stack);
            });
        }
    });
}
