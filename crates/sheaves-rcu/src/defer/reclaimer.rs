//! The reclaimer: the thread that reclaims what no other thread does.
//!
//! It sleeps without a timeout while nothing is deferred, unused or requested by a tool, until the
//! age bound while something is deferred, and until the next look while memory is unused, see
//! `keeper`. It is started by the first thread that defers or arms the keeper, and likewise in the
//! child of a fork.
//!
//! | `SLEEPING` | meaning |
//! |---|---|
//! | [`AWAKE`] | it checks everything before it sleeps again |
//! | [`UNTIL_AGE`] | requests wake it, and so does the arming of the keeper |
//! | [`WITHOUT_END`] | the same, and so does the first thing that is deferred |
//!
//! A thread with a request stores the request, then changes the bell, then reads whether the
//! reclaimer sleeps. The reclaimer reads the bell, then the requests, then stores that it sleeps,
//! and sleeps unless the bell has changed. In the total order of these accesses (all are SeqCst)
//! one of the two sees the other. [B1]

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use sheaves_sys::fork::{self, Handlers};
use sheaves_sys::{futex, report, request, thread, tls};

use super::extents::{SHEAVES, State};
use super::pressure::{self, Pressure};
use super::shard::{Batch, Shard};
use super::{calls, channel, driver, keeper, psi, round, sink, watch};
use crate::options::{self, SLOTS};
use crate::reader::fences;

/// Something is sealed that is worth a grace period.
pub(super) const READY: u32 = 1;
/// Everything is to be sealed and reclaimed now.
pub(super) const FLUSH: u32 = 2;

const AWAKE: u32 = 0;
const UNTIL_AGE: u32 = 1;
const WITHOUT_END: u32 = 2;

/// Changes with every request: the reclaimer sleeps on it.
static BELL: AtomicU32 = AtomicU32::new(0);
static SLEEPING: AtomicU32 = AtomicU32::new(AWAKE);
/// Pending requests. Taken by the thread that fulfils them.
static REQUESTS: AtomicU32 = AtomicU32::new(0);
/// 1 while there is a reclaimer. Written by the thread that starts it, and in the child of a fork.
static RUNNING: AtomicU32 = AtomicU32::new(0);
/// The reclaimer's thread pointer, by which it is known in the child of a fork. Written by it.
static THREAD: AtomicUsize = AtomicUsize::new(0);
/// A start has failed, and was reported.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// How often the reclaimer has gone to sleep.
pub(super) static SLEEPS: AtomicU32 = AtomicU32::new(0);

pub(super) fn is_running() -> bool {
    // Relaxed: a flag; what the reclaimer reads is ordered by itself.
    RUNNING.load(Ordering::Relaxed) != 0
}

/// Something was deferred into an empty sheaf: arms the bound on its age.
///
/// One load if it is armed. Otherwise starts the reclaimer, or wakes it from a sleep without
/// timeout. Starting it makes libc allocate, so do not call this where `malloc` must not be called.
#[inline]
pub fn arm() {
    if !pressure::is_armed() {
        arm_slow();
    }
}

#[cold]
fn arm_slow() {
    if pressure::arm() {
        start();
        wake_from(WITHOUT_END);
    }
}

/// Memory lies unused: arms the keeper. One load if it is armed.
///
/// Starts the reclaimer if there is none and the process has more than one thread. That takes locks
/// of libc, under which it may free memory, but not allocate: call this after allocations only, and
/// [`keep_if_running`] after frees. Not under a lock of the library.
#[inline]
pub fn keep() {
    if !keeper::is_armed() {
        keep_slow(true);
    }
}

/// [`keep`] if there is a reclaimer; false if there is none.
#[inline]
pub fn keep_if_running() -> bool {
    if !keeper::is_armed() && is_running() {
        keep_slow(false);
    }
    is_running()
}

#[cold]
fn keep_slow(may_start: bool) {
    if keeper::arm(is_running()) {
        if is_running() || (may_start && try_start()) {
            wake_from(UNTIL_AGE);
        } else {
            keeper::disarm();
        }
    }
}

/// Follows [`super::note_sealed`]: wakes or starts the reclaimer if the pressure is high. Returns
/// the pressure. Not under a lock: libc allocates when it starts a thread.
pub fn after_seal() -> Pressure {
    let pressure = pressure::pressure();
    if pressure >= Pressure::High {
        ring(READY);
    }
    pressure
}

/// Follows the sealing of a batch, without locks: starts its grace period if it is time.
pub(super) fn start_batch(Batch { cookie, is_due }: Batch) -> Pressure {
    let pressure = after_seal();
    if pressure >= Pressure::High {
        cookie.start_expedited();
    } else if is_due || pressure == Pressure::Soft {
        cookie.start();
    }
    if is_due {
        ring(READY);
    }
    watch::look();
    pressure
}

/// Starts the reclaimer if it does not exist, and gives it a request.
pub(super) fn ring(request: u32) {
    start();
    self::request(request);
}

/// Stores a request, and wakes the reclaimer if the request is new.
pub(super) fn request(request: u32) {
    // SeqCst: see the module documentation. [B1]
    if REQUESTS.fetch_or(request, Ordering::SeqCst) & request == 0 {
        wake_from(UNTIL_AGE);
    }
}

/// Wakes the reclaimer if it sleeps at least as deeply as `depth`.
fn wake_from(depth: u32) {
    // SeqCst, both: see the module documentation. [B1]
    BELL.fetch_add(1, Ordering::SeqCst);
    if SLEEPING.load(Ordering::SeqCst) >= depth {
        futex::wake(&BELL, 1);
    }
}

pub(super) fn take_requests() -> u32 {
    // SeqCst: see the module documentation. [B1]
    REQUESTS.swap(0, Ordering::SeqCst)
}

pub(super) fn has_requests() -> bool {
    // Relaxed: a hint.
    REQUESTS.load(Ordering::Relaxed) != 0
}

/// Wakes the reclaimer from its sleep, if there is one: the word of requests is another one now.
pub fn wake_reclaimer() {
    if is_running() {
        wake_from(UNTIL_AGE);
    }
}

/// The reclaimer's `pthread_t`; `None` if there is none.
#[must_use]
pub fn reclaimer_thread() -> Option<usize> {
    // Relaxed: a number, which is stored when the reclaimer begins.
    let thread = THREAD.load(Ordering::Relaxed);
    (is_running() && thread != 0).then_some(thread)
}

/// Starts the reclaimer if it does not exist and is permitted. True if it exists.
pub(super) fn start() -> bool {
    // Relaxed: reported once.
    let is_there = try_start();
    if !is_there && options::reclaimers() != 0 && !HAS_FAILED.swap(true, Ordering::Relaxed) {
        report::report(format_args!(
            "rcu: no thread can be started: what is deferred waits for poll() or barrier()"
        ));
    }
    is_there
}

/// [`start`] without a report.
pub(super) fn try_start() -> bool {
    fork::run_pending_handlers();
    is_running() || (options::reclaimers() != 0 && start_slow())
}

#[cold]
fn start_slow() -> bool {
    // Relaxed, both: a flag, see `is_running`.
    if RUNNING.swap(1, Ordering::Relaxed) != 0 || thread::spawn(run) {
        return true;
    }
    RUNNING.store(0, Ordering::Relaxed);
    keeper::disarm();
    false
}

fn run() -> ! {
    thread::set_name(c"sheaves-rcu");
    // Relaxed: a number; in a fork handler only this thread finds its own.
    THREAD.store(tls::thread_pointer(), Ordering::Relaxed);
    if options::reclaimers() == SLOTS {
        driver::start_workers(|| thread::spawn(run_worker));
    }
    loop {
        // SeqCst, here and below: see the module documentation. [B1]
        let bell = BELL.load(Ordering::SeqCst);
        request::look_as_keeper();
        let requests = take_requests();
        let age_ms = pressure::age_ms();
        let is_old = age_ms.is_some_and(|age| age >= options::age_ms());
        if keeper::left_ms() == Some(0) {
            keeper::look();
        }
        if requests & FLUSH != 0 {
            round::full(&driver::drive(), true);
        } else if is_old || (age_ms.is_some() && psi::is_short()) {
            round::full(&driver::drive(), !is_old);
        } else if requests & READY != 0 {
            round::ready(&driver::drive());
        } else {
            sleep(bell, age_ms);
        }
    }
}

/// The body of a worker. If its callback forks, it becomes the reclaimer of the child.
fn run_worker() -> ! {
    thread::set_name(c"sheaves-rcu-run");
    driver::work();
    run()
}

fn sleep(bell: u32, age_ms: Option<u64>) {
    // Relaxed: statistics.
    SLEEPS.fetch_add(1, Ordering::Relaxed);
    // Callbacks may have entered read sections.
    fences::enter_idle();
    let depth = if age_ms.is_some() { UNTIL_AGE } else { WITHOUT_END };
    // SeqCst: see the module documentation. [B1]
    SLEEPING.store(depth, Ordering::SeqCst);
    let age_left_ms = age_ms.map(|age| {
        let left_ms = options::age_ms().saturating_sub(age).max(1);
        psi::patience_ms(left_ms)
    });
    let left_ms = age_left_ms.into_iter().chain(keeper::left_ms()).min();
    request::sleep(&BELL, bell, left_ms.map(|left_ms| left_ms.max(1) * 1_000_000));
    // SeqCst: as above.
    SLEEPING.store(AWAKE, Ordering::SeqCst);
}

static HANDLERS: Handlers = Handlers { prepare, parent, child, recover };
sheaves_sys::announce_when_loaded!(Deferred, &HANDLERS);

/// The shards of channels, then those of calls: their locks are taken in this order, after that of
/// registration and before that of the memory.
fn shards() -> impl Iterator<Item = &'static Shard> {
    channel::shards().chain(&calls::ALL)
}

/// A fork does not wait for the driver, see `driver`.
fn prepare() {
    sink::REGISTERING.acquire();
    shards().for_each(|shard| shard.waiting.acquire());
    SHEAVES.state.acquire();
}

/// [`prepare`] in the child of a fork that did not run it. What is pending is counted again, as in
/// the layers above. If another thread was changing a shard, the heads linked there are lost.
fn recover() {
    pressure::restart();
    SHEAVES.state.acquire_to_recover(State::recover);
    shards().for_each(Shard::recover);
    // A sink, or a channel, has been added or it has not.
    sink::REGISTERING.acquire();
}

fn parent() {
    // SAFETY: acquired in `prepare` or `recover`, by the thread that forked; here and below.
    unsafe { SHEAVES.state.release() };
    // SAFETY: as above.
    shards().for_each(|shard| unsafe { shard.waiting.release() });
    // SAFETY: as above.
    unsafe { sink::REGISTERING.release() };
}

fn child() {
    restart(driver::restart_in_child());
    parent();
}

/// In the child of a fork there is no reclaimer, unless it has forked; a worker that has forked
/// becomes it. Requests, and what is not sealed, wait for the first thread that defers or polls.
fn restart(was_worker: bool) {
    let me = tls::thread_pointer();
    let is_reclaimer = was_worker || reclaimer_thread() == Some(me);
    // Relaxed, all: the child has one thread.
    RUNNING.store(u32::from(is_reclaimer), Ordering::Relaxed);
    // A new thread of the child may get the same thread pointer.
    THREAD.store(if is_reclaimer { me } else { 0 }, Ordering::Relaxed);
    SLEEPING.store(AWAKE, Ordering::Relaxed);
    keeper::restart_in_child();
    if !is_reclaimer && pressure::disarm().is_some() {
        REQUESTS.fetch_or(FLUSH, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/reclaimer.rs"]
mod tests;
