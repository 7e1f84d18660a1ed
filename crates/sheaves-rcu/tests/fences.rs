//! Grace periods without a membarrier. One test: it counts the membarriers of the process.

use std::sync::mpsc::{Receiver, Sender, channel};

use sheaves_rcu::{Cookie, enter_idle, raw, read, statistics, synchronize};

/// Number of membarriers while `body` runs.
fn membarriers(body: impl FnOnce()) -> u64 {
    let before = statistics().membarriers;
    body();
    statistics().membarriers - before
}

fn wait_ten_times() {
    (0..10).for_each(|_| synchronize().expect("this thread does not read"));
}

/// Reads so often that the thread's sections no longer fence.
fn read_a_lot() {
    (0..1000).for_each(|_| drop(read()));
}

/// A thread that runs what it is sent, and answers when it is done.
struct Other {
    orders: Sender<fn()>,
    done: Receiver<()>,
}

impl Other {
    fn start() -> Other {
        let (orders, next) = channel::<fn()>();
        let (say, done) = channel();
        std::thread::spawn(move || {
            next.into_iter().for_each(|order| {
                order();
                say.send(()).expect("a thread waits");
            });
        });
        Other { orders, done }
    }

    fn run(&self, order: fn()) {
        self.orders.send(order).expect("it listens");
        self.done.recv().expect("it does what it is told");
    }
}

fn polls_with(other: &Other) {
    let cookie = Cookie::start_poll();
    other.run(|| {
        let _ = Cookie::get();
    });
    while !cookie.poll() {
        core::hint::spin_loop();
    }
}

/// Many idle threads cause no membarrier, and are waited for when they read.
fn many_are_idle() {
    let many: Vec<_> = (0..200).map(|_| Other::start()).collect();
    many.iter().for_each(|other| other.run(|| drop(read())));
    assert_eq!(membarriers(wait_ten_times), 0, "they are idle");
    for other in &many {
        other.run(raw::lock);
        let cookie = Cookie::start_poll();
        assert!((0..100).all(|_| !cookie.poll()), "there is a reader");
        // SAFETY: the section that the thread entered above.
        other.run(|| unsafe { raw::unlock() });
        cookie.wait().expect("this thread does not read");
    }
    many.iter().for_each(|other| other.run(read_a_lot));
    many.iter().for_each(|other| other.run(enter_idle));
    assert_eq!(membarriers(wait_ten_times), 0, "they are idle again");
}

#[test]
fn threads_that_have_passed_a_fence_are_not_interrupted() {
    synchronize().expect("this thread does not read");
    if statistics().readers_fence {
        // Readers fence: there is no membarrier to avoid.
        return;
    }
    assert_eq!(membarriers(wait_ten_times), 0, "no thread has read");
    drop(read());
    assert_eq!(membarriers(wait_ten_times), 0, "who waits passes fences himself");

    let other = Other::start();
    other.run(|| drop(read()));
    assert_eq!(membarriers(wait_ten_times), 0, "another thread has read once, and does nothing");
    other.run(read_a_lot);
    assert_eq!(membarriers(wait_ten_times), 10, "it has read a lot, and does nothing");
    other.run(enter_idle);
    assert_eq!(membarriers(wait_ten_times), 0, "it will not read");
    many_are_idle();
    other.run(|| drop(read()));
    assert_eq!(membarriers(wait_ten_times), 10, "it has read again");

    // The scheduler decides whether it defers in time.
    let rounds = 200;
    let interrupted = membarriers(|| (0..rounds).for_each(|_| polls_with(&other)));
    assert!(interrupted < rounds, "it never defers in time");
}
