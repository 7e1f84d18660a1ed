//! Cookies that are awaited.

use core::future::Future;
use core::pin::pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::task::Wake;

use sheaves_rcu::Cookie;

use crate::{Reader, alone};

struct Unpark(std::thread::Thread, AtomicUsize);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.unpark();
    }
}

/// Runs a future to its end in this thread; how often it was woken.
fn block_on(future: impl Future<Output = ()>) -> usize {
    let unpark = Arc::new(Unpark(std::thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&unpark));
    let mut future = pin!(future);
    let mut context = Context::from_waker(&waker);
    while future.as_mut().poll(&mut context).is_pending() {
        std::thread::park();
    }
    unpark.1.load(Ordering::SeqCst)
}

#[test]
fn a_future_is_woken_when_readers_are_gone() {
    let _alone = alone();
    let reader = Reader::start();
    let cookie = Cookie::get();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            drop(reader);
        });
        assert!(block_on(cookie.finished()) >= 1);
    });
    assert!(cookie.poll());
}

#[test]
fn many_futures_in_many_threads() {
    let _alone = alone();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
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
