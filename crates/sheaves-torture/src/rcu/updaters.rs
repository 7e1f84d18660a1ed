//! Updaters of every kind, each of which replaces the items of one pipeline.

use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use std::sync::Arc;
use std::task::Wake;

use sheaves_history::{callback, prototype};
use sheaves_rcu::{Cookie, Srcu, read, synchronize, synchronize_expedited};

use super::broken::Broken;
use super::world::{
    ASYNC, COOKIE_WAIT, DOMAIN_CALL, DOMAIN_UPDATE, EXPEDITE_GUARD, EXPEDITED, POLLED, SYNCHRONIZE,
    WORLD,
};
use crate::pipeline::{Item, Pipeline};
use crate::random::Random;
use crate::rounds::Round;

/// Indexes of the pipelines: of the updaters that block, that poll, and that await.
const BLOCKING: usize = 0;
const POLLING: usize = 1;
const AWAITING: usize = 2;

const REFUSED: &str = "an updater is not inside a section";

/// Counts a completed update.
fn count(kind: usize) {
    WORLD.updates[kind].fetch_add(1, Ordering::Relaxed);
}

/// Waits in one of the blocking ways; returns which one.
fn wait_somehow(random: &mut Random, broken: Option<Broken>) -> usize {
    if broken == Some(Broken::Published) {
        prototype::synchronize().expect(REFUSED);
        return SYNCHRONIZE;
    }
    match random.below(8) {
        0 => {
            synchronize_expedited().expect(REFUSED);
            EXPEDITED
        }
        1 => {
            let _expedited = (sheaves_rcu::expedite(), sheaves_rcu::expedite());
            synchronize().expect(REFUSED);
            EXPEDITE_GUARD
        }
        2 => {
            let cookie = Cookie::start_poll_expedited();
            drop(read());
            cookie.wait_expedited().expect(REFUSED);
            COOKIE_WAIT
        }
        3 => {
            Cookie::get().wait().expect(REFUSED);
            COOKIE_WAIT
        }
        4 => {
            callback::synchronize().expect(REFUSED);
            SYNCHRONIZE
        }
        _ => {
            synchronize().expect(REFUSED);
            SYNCHRONIZE
        }
    }
}

/// Replaces items, and waits each time before replaced items grow older.
fn replace_and_wait(last: Round, pipeline: &Pipeline, mut wait: impl FnMut() -> usize) {
    let mut replaced: Vec<Item> = Vec::new();
    while !WORLD.rounds.is_stopped() {
        if !WORLD.rounds.is_turn(last) {
            continue;
        }
        replaced.push(pipeline.replace().expect("ten generations are under way at most"));
        let kind = wait();
        replaced.retain(|item| !pipeline.grow(*item));
        count(kind);
    }
}

/// The updater that blocks.
pub(super) fn block(broken: Option<Broken>) {
    WORLD.signals.be_target();
    let mut random = Random::new();
    let pipeline = &WORLD.pipelines[BLOCKING];
    replace_and_wait(Round::Duel, pipeline, || {
        if WORLD.rounds.is_duel() && broken != Some(Broken::Published) {
            synchronize_expedited().expect(REFUSED);
            EXPEDITED
        } else {
            wait_somehow(&mut random, broken)
        }
    });
    WORLD.signals.outlast();
}

/// An updater that only waits: it joins in the middle of other threads' grace periods.
pub(super) fn join(broken: Option<Broken>) {
    WORLD.signals.be_target();
    let mut random = Random::new();
    while !WORLD.rounds.is_stopped() {
        if WORLD.rounds.is_turn(Round::Few) {
            count(wait_somehow(&mut random, broken));
            (0..random.below(200)).for_each(|_| core::hint::spin_loop());
        }
    }
    WORLD.signals.outlast();
}

/// The updater that polls: each item has a cookie of its own, so that many are in progress.
pub(super) fn poll() {
    WORLD.signals.be_target();
    let mut random = Random::new();
    let pipeline = &WORLD.pipelines[POLLING];
    let mut under_way: Vec<(Item, Cookie)> = Vec::new();
    while !WORLD.rounds.is_stopped() {
        if !WORLD.rounds.is_turn(Round::Few) {
            continue;
        }
        if let Some(item) = pipeline.replace() {
            under_way.push((item, ask(&mut random)));
        }
        let before = under_way.len();
        under_way.retain_mut(|(item, cookie)| {
            if !cookie.poll() {
                return true;
            }
            count(POLLED);
            *cookie = ask(&mut random);
            !pipeline.grow(*item)
        });
        if under_way.len() == before {
            std::thread::yield_now();
        }
    }
    // Each cookie passes, though no other thread waits any more.
    while !under_way.is_empty() {
        under_way.retain(|(_, cookie)| !cookie.poll());
        std::thread::yield_now();
    }
    WORLD.signals.outlast();
}

/// A cookie whose grace period was started or requested.
fn ask(random: &mut Random) -> Cookie {
    match random.below(4) {
        0 => Cookie::start_poll_expedited(),
        1 => {
            let cookie = Cookie::get();
            cookie.start();
            cookie
        }
        _ => Cookie::start_poll(),
    }
}

/// The waker of one task.
struct Ready(AtomicBool, std::thread::Thread);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
        self.1.unpark();
    }
}

/// A future that lets an item grow, and its waker. It is polled when it was woken, and at first.
struct Task(Pin<Box<dyn Future<Output = ()>>>, Arc<Ready>);

impl Task {
    fn new(pipeline: &'static Pipeline, item: Item) -> Task {
        let ready = Ready(AtomicBool::new(true), std::thread::current());
        Task(Box::pin(age(pipeline, item)), Arc::new(ready))
    }

    /// Polls those that were woken, and drops those that are over. False if none was woken.
    fn poll_woken(tasks: &mut Vec<Task>) -> bool {
        let mut is_any = false;
        tasks.retain_mut(|Task(future, ready)| {
            if !ready.0.swap(false, Ordering::AcqRel) {
                return true;
            }
            is_any = true;
            let waker = Waker::from(Arc::clone(ready));
            future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
        });
        is_any
    }
}

/// The updater that awaits: each item has a task of its own. The thread sleeps until a waker wakes
/// it. A task whose wake-up is lost stays to the end, and the thread waits for it for ever.
pub(super) fn awaiting() {
    WORLD.signals.be_target();
    let pipeline = &WORLD.pipelines[AWAITING];
    let mut tasks: Vec<Task> = Vec::new();
    while !WORLD.rounds.is_stopped() {
        if !WORLD.rounds.is_turn(Round::Few) {
            continue;
        }
        tasks.extend(pipeline.replace().map(|item| Task::new(pipeline, item)));
        if !Task::poll_woken(&mut tasks) {
            std::thread::park();
        }
    }
    while !tasks.is_empty() {
        if !Task::poll_woken(&mut tasks) {
            std::thread::park();
        }
    }
    // New tasks are dropped while they wait.
    tasks.extend(core::iter::from_fn(|| pipeline.replace()).map(|item| Task::new(pipeline, item)));
    Task::poll_woken(&mut tasks);
    drop(tasks);
    WORLD.signals.outlast();
}

/// Lets an item grow until it is free.
async fn age(pipeline: &Pipeline, item: Item) {
    let mut random = Random::new();
    loop {
        let cookie = Cookie::get();
        if random.one_in(4) {
            // A future that is dropped before it completes.
            Once(Some(Box::pin(cookie.finished()))).await;
        }
        cookie.finished().await;
        count(ASYNC);
        if pipeline.grow(item) {
            return;
        }
    }
}

/// Polls a future once, and drops it.
struct Once(Option<Pin<Box<sheaves_rcu::Finished>>>);

impl Future for Once {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(mut future) = self.0.take() {
            let _ = future.as_mut().poll(context);
        }
        Poll::Ready(())
    }
}

/// The updater of the domain.
pub(super) fn update_domain() {
    WORLD.signals.be_target();
    let mut random = Random::new();
    replace_and_wait(Round::Crowd, &WORLD.domain_pipeline, || wait_in_domain(&mut random));
    WORLD.signals.outlast();
}

fn wait_in_domain(random: &mut Random) -> usize {
    if random.one_in(2) {
        wait_for_callback(random.one_in(32));
        return DOMAIN_CALL;
    }
    WORLD.domain().synchronize();
    DOMAIN_UPDATE
}

/// Waits for a callback of the domain: by its barrier, or for one that defers again.
fn wait_for_callback(is_again: bool) {
    let (domain, (done, is_done)) = (WORLD.domain(), std::sync::mpsc::channel());
    if is_again {
        domain.defer(move || domain.defer(move || _ = done.send(())));
        return is_done.recv().expect("a callback is called");
    }
    domain.defer(move || _ = done.send(()));
    domain.barrier().expect(REFUSED);
    is_done.try_recv().expect("a barrier waits for the callback");
}

/// An updater that waits in the domain, and creates domains that are dropped again.
pub(super) fn make_domains() {
    let mut random = Random::new();
    while !WORLD.rounds.is_stopped() {
        if !WORLD.rounds.is_turn(Round::Crowd) {
            continue;
        }
        count(wait_in_domain(&mut random));
        if random.one_in(10)
            && let Ok(domain) = Srcu::new()
        {
            drop(domain.read());
            domain.synchronize();
            WORLD.domains.fetch_add(1, Ordering::Relaxed);
        }
    }
}
