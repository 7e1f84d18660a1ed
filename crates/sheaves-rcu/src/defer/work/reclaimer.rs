//! The reclaimer: the thread that reclaims what no other thread does. The library has no other one,
//! but for the workers of `SHEAVES_RCU_RECLAIMERS=slots`.
//!
//! It is started by the first thread that defers, arms the keeper, has a request, or polls a future
//! that has to wait; likewise in the child of a fork. It sleeps until the age bound while something
//! is deferred, and until the next tick while memory is unused. When it has had nothing to do for
//! [`IDLE_MS`], it ends.
//!
//! | `RUNNING` | meaning | transitions |
//! |---|---|---|
//! | 0 | there is none | -> [`STARTING`], by the thread that starts it |
//! | [`STARTING`] | it is being started | -> [`BEGUN`], by itself; -> 0, if it cannot be started |
//! | [`BEGUN`] | there is one | -> 0, by itself, or in the child of a fork |
//!
//! A thread with a request stores the request, then reads `RUNNING`. The reclaimer that ends stores
//! 0, then reads the requests: if there is one, it tries to store [`BEGUN`] again and goes on. All
//! are SeqCst, so that one of the two sees the other. A thread that will sleep until the reclaimer
//! wakes it reads [`BEGUN`] first. [B4]

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use sheaves_sys::fork::{self, Handlers};
use sheaves_sys::options::{RCU_AGE_MS, RCU_RECLAIMERS};
use sheaves_sys::{clock, lock, report, request, restart_word, sandbox, thread, tls};

use super::bell::{self, FLUSH, READY, SWEEP, UNTIL_AGE, UNTIL_DEFERRED};
use super::{calls, channel, domains, driver, futures, keeper, layers, round};
use crate::defer::store::extents::SHEAVES;
use crate::defer::store::pressure;
use crate::defer::store::shard::Shard;
use crate::reader::fences;

/// The value of `SHEAVES_RCU_RECLAIMERS` for `slots`: callbacks run in worker threads.
const SLOTS: u64 = 2;
const STARTING: u32 = 1;
const BEGUN: u32 = 2;
/// The reclaimer ends after this time with nothing to do.
const IDLE_MS: u64 = 2000;
/// The time after a start that failed in which none is tried: a limit or a filter that the library
/// does not know of refuses each.
const PAUSE_MS: u64 = 100;
/// How long [`before_sandbox`] waits for the end of the library's threads: one may be in a callback
/// that waits for the caller, or wait for the loader.
const END_MS: u64 = 1000;
/// The same while it runs, or all that it lacks is a CPU.
const END_STARVED_MS: u64 = 60_000;

/// See the table above.
static RUNNING: AtomicU32 = AtomicU32::new(0);
/// The reclaimer's thread pointer, by which it is known in the child of a fork. Written by it.
static THREAD: AtomicUsize = AtomicUsize::new(0);
/// A start has failed, and was reported.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);
/// Callers of [`before_sandbox`] that have announced one, and may still be outside of it.
static ANNOUNCING: AtomicU32 = AtomicU32::new(0);
/// When a start is tried again after one that failed, in ms of the clock.
static RETRY_MS: AtomicU64 = AtomicU64::new(0);

/// True if there is a reclaimer, or is about to be, unless it cannot be started.
pub(crate) fn is_running() -> bool {
    // SeqCst: after the caller's request, see the module documentation. [B4]
    RUNNING.load(Ordering::SeqCst) != 0
}

pub(crate) fn has_begun() -> bool {
    // SeqCst: as above. [B4]
    RUNNING.load(Ordering::SeqCst) == BEGUN
}

/// The reclaimer's thread pointer; `None` if there is none.
pub fn reclaimer_thread() -> Option<usize> {
    // Relaxed: a number, which is stored when the reclaimer begins.
    let thread = THREAD.load(Ordering::Relaxed);
    (is_running() && thread != 0).then_some(thread)
}

/// True if the calling thread is the reclaimer.
pub fn is_reclaimer() -> bool {
    // Relaxed: a thread that finds its own pointer here has stored it itself.
    THREAD.load(Ordering::Relaxed) == tls::thread_pointer()
}

/// [`try_start`]. Reports the first failure.
pub(crate) fn start_or_report() -> bool {
    let is_there = try_start();
    // Relaxed: reported once.
    if !is_there && RCU_RECLAIMERS.get() != 0 && !HAS_FAILED.swap(true, Ordering::Relaxed) {
        report::report(format_args!(
            "rcu: no thread can be started: what is deferred waits for reclaim() or barrier()"
        ));
    }
    is_there
}

/// Starts the reclaimer if it does not exist and is permitted. True if it exists.
pub(crate) fn try_start() -> bool {
    fork::run_pending_handlers();
    is_running() || (may_start() && start_slow())
}

pub(crate) fn may_start() -> bool {
    RCU_RECLAIMERS.get() != 0 && !sandbox::is_entered()
}

#[cold]
fn start_slow() -> bool {
    // Relaxed, here and below: a hint.
    if clock::coarse_ms() < RETRY_MS.load(Ordering::Relaxed) {
        return false;
    }
    // SeqCst, both: as in `is_running`.
    let (order, failed) = (Ordering::SeqCst, Ordering::SeqCst);
    if RUNNING.compare_exchange(0, STARTING, order, failed).is_err() || thread::spawn(run) {
        return true;
    }
    RETRY_MS.store(clock::coarse_ms() + PAUSE_MS, Ordering::Relaxed);
    RUNNING.store(0, Ordering::SeqCst);
    keeper::disarm();
    false
}

fn run() {
    thread::set_name(c"sheaves-rcu");
    // SeqCst: see the module documentation. [B4]
    RUNNING.store(BEGUN, Ordering::SeqCst);
    // Relaxed, here and below: numbers; in a fork handler only this thread finds its own.
    THREAD.store(tls::thread_pointer(), Ordering::Relaxed);
    request::note_process(true);
    // One at a time: the one before may be about to end, and its workers.
    for _ in (0..END_CHECKS).take_while(|_| others().next().is_some()) {
        thread::sleep_ns(END_CHECK_NS);
    }
    if RCU_RECLAIMERS.get() == SLOTS {
        driver::start_workers(|| thread::spawn(run_worker));
    }
    // First, as a sweep may replace the page with the request.
    request::answer();
    layers::layers().for_each(|layer| layer.sweep());
    loop {
        work_until_idle();
        driver::stop_workers();
        THREAD.store(0, Ordering::Relaxed);
        // SeqCst: see the module documentation. [B4]
        RUNNING.store(0, Ordering::SeqCst);
        let is_over = !(has_work() || bell::has_requests()) || !may_start();
        let (order, failed) = (Ordering::SeqCst, Ordering::SeqCst);
        if is_over || RUNNING.compare_exchange(0, BEGUN, order, failed).is_err() {
            break;
        }
        THREAD.store(tls::thread_pointer(), Ordering::Relaxed);
    }
    // In a sandbox no other thread wakes them, and it is not sure that one can be started.
    futures::wake_all();
}

fn has_work() -> bool {
    let is_pending = pressure::armed_ms().is_some() || pressure::sealed()[0] != 0;
    let is_pending = is_pending || domains::left_ms().is_some();
    is_pending || keeper::left_ms().is_some() || futures::lowest().is_some()
}

/// Does what is to be done until there was nothing for [`IDLE_MS`], or a sandbox is entered.
fn work_until_idle() {
    let (mut idle_since_ms, mut woken_ms) = (None, 0);
    while !sandbox::is_entered() {
        let (bell, requests) = bell::take_requests();
        let mut has_done = request::answer() | keeper::tick_if_due();
        if requests & SWEEP != 0 {
            layers::layers().for_each(|layer| layer.sweep());
            has_done = true;
        }
        let age_ms = pressure::age_ms();
        let is_old = age_ms.is_some_and(|age| age >= RCU_AGE_MS.get());
        if requests & FLUSH != 0 || is_old {
            round::full(&driver::become_driver(), requests & FLUSH != 0);
            has_done = true;
        } else if requests & READY != 0 {
            round::reclaim_sealed(&driver::become_driver());
            has_done = true;
        } else {
            if domains::left_ms() == Some(0) {
                has_done |= round::reclaim(&driver::become_driver());
            }
            has_done |= futures::wait();
            woken_ms = 0;
        }
        // Rounds may follow each other for long: their grace periods serve futures, too.
        if woken_ms != clock::coarse_ms() {
            woken_ms = clock::coarse_ms();
            futures::wake_ready();
        }
        if has_done || has_work() {
            idle_since_ms = None;
        }
        if has_done {
            continue;
        }
        let now_ms = clock::coarse_ms();
        let idle_ms = now_ms.saturating_sub(*idle_since_ms.get_or_insert(now_ms));
        if idle_ms >= IDLE_MS {
            return;
        }
        // Callbacks may have entered read sections.
        fences::enter_idle();
        let age_left_ms = age_ms.map(|age| RCU_AGE_MS.get().saturating_sub(age).max(1));
        bell::sleep(bell, if age_ms.is_some() { UNTIL_AGE } else { UNTIL_DEFERRED }, || {
            let limits = age_left_ms.into_iter().chain(keeper::left_ms());
            let limits = limits.chain(domains::left_ms());
            limits.fold(IDLE_MS - idle_ms, u64::min)
        });
        if pressure::sealed()[0] != 0 && pressure::armed_ms().is_none() {
            bell::request(READY);
        }
    }
}

/// The body of a worker. If its callback forks, it becomes the reclaimer of the child.
fn run_worker() {
    thread::set_name(c"sheaves-rcu-run");
    if driver::work() {
        run();
    }
}

/// To be called before the program puts itself into a sandbox (seccomp) that does not permit what
/// the library documents for itself: ends the library's threads, for good.
///
/// From then on, in this process and its children, the library makes no system calls but `mmap`,
/// `munmap`, `mremap`, `mprotect`, `madvise` and `futex`. What is deferred is freed by threads that
/// defer and allocate; callbacks run in [`reclaim`](crate::defer::reclaim) and
/// [`barrier`](crate::defer::barrier) only. What is deferred takes a short lock each time. Threads
/// that read for the first time fence in each section; a grace period that has to wait for the
/// fences of others takes 10 ms.
///
/// Waits until the threads have ended: for a second at most, or for a minute while one of them
/// runs or waits for a CPU. One that is in a longer callback ends later. Does not wait in a
/// callback, and in a waker not for the calling thread. A call beside another one waits like it, a
/// later one changes nothing. Not for signal handlers.
pub fn before_sandbox() {
    fork::run_pending_handlers();
    let is_first = !sandbox::is_entered();
    // Relaxed, all: the fence orders.
    ANNOUNCING.fetch_add(u32::from(is_first), Ordering::Relaxed);
    // SeqCst pairs with itself: a caller that finds the sandbox entered sees the one before it.
    fence(Ordering::SeqCst);
    if is_first {
        announce_sandbox();
    }
    let begin_ms = clock::coarse_ms();
    let may_wait_for = |id| match clock::coarse_ms() - begin_ms {
        0..END_MS => true,
        END_MS..END_STARVED_MS => id == thread::STARTING || thread::is_runnable(id),
        _ => false,
    };
    // A waker on the library's thread does not wait beside a caller, which waits for that thread.
    let is_beside = || ANNOUNCING.load(Ordering::Relaxed) != 0 && !is_reclaimer();
    let may_wait = || !driver::is_inside_call() && (is_first || is_beside());
    while may_wait() && others().any(may_wait_for) {
        bell::wake_from(UNTIL_AGE);
        thread::sleep_ns(END_CHECK_NS);
    }
    ANNOUNCING.fetch_sub(u32::from(is_first), Ordering::Relaxed);
}

/// Seals everything, and notes that a sandbox follows.
fn announce_sandbox() {
    // What other slots have deferred cannot be reached from a sandbox. Twice: a thread that has not
    // noticed may put a sheaf into its slot before the first pass has had the lock.
    sandbox::approach();
    for _ in 0..2 {
        calls::seal_all();
        layers::layers().for_each(|layer| _ = layer.seal());
    }
    if let Some(driver_role) = driver::try_become_driver() {
        round::seal_and_start(&driver_role);
    }
    sandbox::enter();
}

/// The library's threads but the calling one, which may run a waker or another function of the
/// program's.
fn others() -> impl Iterator<Item = i32> {
    thread::own().filter(|id| *id != thread::id())
}

/// The time between two checks whether a thread has ended.
const END_CHECK_NS: u64 = 100_000;
/// Checks of a reclaimer whether the one before it has ended.
const END_CHECKS: u32 = 100;

static HANDLERS: Handlers = Handlers { prepare, parent, child };
sheaves_sys::announce_when_loaded!(Deferred, &HANDLERS);

/// The shards of channels, then those of calls: their locks are taken in this order, after that of
/// registration and before that of the memory.
fn shards() -> impl Iterator<Item = &'static Shard> {
    channel::shards().chain(&calls::ALL)
}

/// A fork does not wait for the driver, see `driver`.
fn prepare() {
    layers::LAYERS.acquire();
    shards().for_each(|shard| shard.waiting.acquire());
    domains::RING.acquire();
    SHEAVES.state.acquire();
}

fn parent() {
    // SAFETY: acquired in `prepare`, by the thread that forked; here and below.
    unsafe { SHEAVES.state.release() };
    // SAFETY: as above.
    unsafe { domains::RING.release() };
    // SAFETY: as above.
    shards().for_each(|shard| unsafe { shard.waiting.release() });
    // SAFETY: as above.
    unsafe { layers::LAYERS.release() };
}

fn child() {
    restart(driver::restart_in_child());
    parent();
}

/// In the child of a fork there is no reclaimer, unless it has forked; a worker that has forked
/// becomes it. Requests, and what was not sealed, wait for it, or for the first thread that defers
/// or polls.
fn restart(was_worker: bool) {
    let is_reclaimer = was_worker || is_reclaimer();
    restart_word!(RUNNING, if is_reclaimer { BEGUN } else { 0 });
    // A new thread of the child may get the same thread pointer, or the same id.
    restart_word!(THREAD, if is_reclaimer { tls::thread_pointer() } else { 0 });
    thread::restart_in_child(is_reclaimer);
    keeper::restart_in_child();
    bell::restart_in_child(seal_in_child() | pressure::disarm().is_some());
}

/// Seals what slots and channels have: what is deferred next begins a new sheaf, and so arms the
/// age bound. True if there was something, which another thread may have been about to arm for.
/// Nothing is sealed if a handler has forked while this thread held a lock.
fn seal_in_child() -> bool {
    !lock::is_any_held_here() && calls::seal_in_child() | channel::seal_all()
}

#[cfg(test)]
#[path = "../../../tests/unit/reclaimer.rs"]
mod tests;
