//! The reclaimer: the thread that reclaims what no other thread does. The library has no other one,
//! but for the workers of `SHEAVES_RCU_RECLAIMERS=slots`.
//!
//! It exists while there is something to do. It is started by the first thread that defers, arms
//! the keeper, has a request, or polls a future that has to wait; likewise in the child of a fork.
//! It sleeps until the age bound while something is deferred, and until the next look while memory
//! is unused, see `keeper`. When it has had nothing to do for [`IDLE_MS`], it ends.
//!
//! | `SLEEPING` | meaning |
//! |---|---|
//! | [`AWAKE`] | it checks everything before it sleeps again |
//! | [`UNTIL_AGE`] | requests wake it, and so does the arming of the keeper |
//! | [`IDLE`] | the same, and so does the first thing that is deferred |
//!
//! A thread with a request stores the request, then changes the bell, then reads whether the
//! reclaimer sleeps. The reclaimer reads the bell, then the requests, then stores that it sleeps,
//! and sleeps unless the bell has changed. In the total order of these accesses (all are SeqCst)
//! one of the two sees the other. [B1]
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

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use sheaves_sys::fork::{self, Handlers};
use sheaves_sys::{clock, futex, report, request, sandbox, thread, tls};

use super::extents::SHEAVES;
use super::pressure::{self, Pressure};
use super::shard::{Batch, Shard};
use super::{calls, channel, driver, futures, keeper, round, sink, watch};
use crate::options::{self, SLOTS};
use crate::reader::fences;

/// Something is sealed that is worth a grace period, or waits for a membarrier.
pub(super) const READY: u32 = 1;
/// Everything is to be sealed and reclaimed now.
pub(super) const FLUSH: u32 = 2;
/// Other slots are to be looked at, see [`super::Sink::sweep`].
const SWEEP: u32 = 4;

const AWAKE: u32 = 0;
const UNTIL_AGE: u32 = 1;
const IDLE: u32 = 2;

const STARTING: u32 = 1;
const BEGUN: u32 = 2;

/// The reclaimer ends after this time with nothing to do.
const IDLE_MS: u64 = 2000;
/// The time after a start that failed in which none is tried: a limit or a filter that the library
/// does not know of refuses each.
const PAUSE_MS: u64 = 100;
/// How long [`before_sandbox`] waits for the end of the library's threads: one may be in a callback
/// that waits for the caller.
const END_MS: u64 = 1000;

/// Changes with every request: the reclaimer sleeps on it.
static BELL: AtomicU32 = AtomicU32::new(0);
static SLEEPING: AtomicU32 = AtomicU32::new(AWAKE);
/// Pending requests. Taken by the thread that fulfils them.
static REQUESTS: AtomicU32 = AtomicU32::new(0);
/// See the table above.
static RUNNING: AtomicU32 = AtomicU32::new(0);
/// The reclaimer's thread pointer, by which it is known in the child of a fork. Written by it.
static THREAD: AtomicUsize = AtomicUsize::new(0);
/// The kernel's id of the last reclaimer. Written by it.
static ID: AtomicI32 = AtomicI32::new(0);
/// A start has failed, and was reported.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);
/// When a start is tried again after one that failed, in ms of the clock.
static RETRY_MS: AtomicU64 = AtomicU64::new(0);

/// Number of times that the reclaimer has gone to sleep.
pub(super) static SLEEPS: AtomicU32 = AtomicU32::new(0);

/// True if there is a reclaimer, or is about to be, unless it cannot be started.
pub(super) fn is_running() -> bool {
    // SeqCst: after the caller's request, see the module documentation. [B4]
    RUNNING.load(Ordering::SeqCst) != 0
}

/// True if there is a reclaimer.
pub(super) fn has_begun() -> bool {
    // SeqCst: as above. [B4]
    RUNNING.load(Ordering::SeqCst) == BEGUN
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
        wake_from(IDLE);
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

/// [`keep`] if there is a reclaimer.
#[inline]
pub fn keep_if_running() {
    if !keeper::is_armed() && is_running() {
        keep_slow(false);
    }
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

/// Wakes the library's thread for what a tool requests, or another part of the library; starts it
/// if `may_start` and it does not exist. False where there can be none. As [`keep`], and also with
/// one thread.
pub fn serve(may_start: bool) -> bool {
    if is_running() || (may_start && try_start()) {
        wake_from(UNTIL_AGE);
        return true;
    }
    !may_start && self::may_start()
}

/// Requests a look of the library's thread at what only it may reach, see [`super::Sink::sweep`].
/// False if
/// there is none. Not under a lock.
pub fn request_sweep() -> bool {
    let is_there = is_running();
    if is_there {
        request(SWEEP);
    }
    is_there
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

/// A grace period lacks a membarrier, see [`crate::Cookie::start_quietly`]: has the reclaimer call
/// it, if there is one. Also under locks.
pub fn request_fence() {
    if is_running() {
        request(READY);
    }
}

/// Follows the sealing of a batch, without locks: starts its grace period if it is time.
pub(super) fn start_batch(Batch { cookie, is_due }: Batch) -> Pressure {
    let pressure = after_seal();
    let is_high = pressure >= Pressure::High;
    let lacks_fence =
        (is_high || is_due || pressure == Pressure::Soft) && cookie.start_quietly(is_high);
    if is_due || lacks_fence {
        ring(READY);
    }
    watch::look();
    pressure
}

/// Gives the reclaimer a request, and starts it if it does not exist.
pub(super) fn ring(request: u32) {
    self::request(request);
    start();
}

/// Stores a request, and wakes the reclaimer if the request is new.
pub(super) fn request(request: u32) {
    // SeqCst: see the module documentation. [B1] [B4]
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
    // SeqCst: see the module documentation. [B4]
    REQUESTS.load(Ordering::SeqCst) != 0
}

/// The reclaimer's `pthread_t`; `None` if there is none.
#[must_use]
pub fn reclaimer_thread() -> Option<usize> {
    // Relaxed: a number, which is stored when the reclaimer begins.
    let thread = THREAD.load(Ordering::Relaxed);
    (is_running() && thread != 0).then_some(thread)
}

/// True if the calling thread is the reclaimer.
#[must_use]
pub fn is_reclaimer() -> bool {
    // Relaxed: a thread that finds its own pointer here has stored it itself.
    THREAD.load(Ordering::Relaxed) == tls::thread_pointer()
}

/// Starts the reclaimer if it does not exist and is permitted. True if it exists.
pub(super) fn start() -> bool {
    let is_there = try_start();
    // Relaxed: reported once.
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
    is_running() || (may_start() && start_slow())
}

/// True if the library may have a thread.
fn may_start() -> bool {
    options::reclaimers() != 0 && !sandbox::is_entered()
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
    request::note_process();
    // One at a time: the one before may be about to end.
    let before = ID.swap(thread::id(), Ordering::Relaxed);
    for _ in (0..END_LOOKS).take_while(|_| before != thread::id() && is_present(before)) {
        thread::sleep_ns(END_LOOK_NS);
    }
    if options::reclaimers() == SLOTS {
        driver::start_workers(|| thread::spawn(run_worker));
    }
    // First, as a sweep may replace the page with the request.
    request::answer();
    sink::sinks().for_each(|sink| sink.sweep());
    loop {
        work_until_idle();
        driver::stop_workers();
        THREAD.store(0, Ordering::Relaxed);
        // SeqCst: see the module documentation. [B4]
        RUNNING.store(0, Ordering::SeqCst);
        let is_over = !(has_work() || has_requests()) || !may_start();
        let (order, failed) = (Ordering::SeqCst, Ordering::SeqCst);
        if is_over || RUNNING.compare_exchange(0, BEGUN, order, failed).is_err() {
            break;
        }
        THREAD.store(tls::thread_pointer(), Ordering::Relaxed);
    }
}

/// True while the reclaimer has to come back later.
fn has_work() -> bool {
    let is_pending = pressure::armed_ms().is_some() || pressure::sealed()[0] != 0;
    is_pending || keeper::left_ms().is_some() || futures::lowest().is_some()
}

/// Does what is to be done until there was nothing for [`IDLE_MS`], or a sandbox is entered.
fn work_until_idle() {
    let mut idle_since_ms = None;
    while !sandbox::is_entered() {
        // SeqCst, here and below: see the module documentation. [B1]
        let bell = BELL.load(Ordering::SeqCst);
        let requests = take_requests();
        let mut has_done = request::answer() | look();
        if requests & SWEEP != 0 {
            sink::sinks().for_each(|sink| sink.sweep());
            has_done = true;
        }
        let age_ms = pressure::age_ms();
        let is_old = age_ms.is_some_and(|age| age >= options::age_ms());
        if requests & FLUSH != 0 {
            round::full(&driver::drive(), true);
        } else if is_old {
            round::full(&driver::drive(), false);
        } else if requests & READY != 0 {
            round::ready(&driver::drive());
        } else {
            has_done |= futures::serve();
            if has_done || has_work() {
                idle_since_ms = None;
            }
            if has_done {
                continue;
            }
            let now_ms = clock::coarse_ms();
            let idle_ms = now_ms.saturating_sub(*idle_since_ms.get_or_insert(now_ms));
            let Some(left_ms) = IDLE_MS.checked_sub(idle_ms).filter(|left| *left > 0) else {
                return;
            };
            sleep(bell, age_ms, left_ms);
            if pressure::sealed()[0] != 0 && pressure::armed_ms().is_none() {
                request(READY);
            }
            continue;
        }
        idle_since_ms = None;
    }
}

/// One look of the keeper, if it is time. True if it was.
fn look() -> bool {
    let is_due = keeper::left_ms() == Some(0);
    if is_due {
        keeper::look();
    }
    is_due
}

/// The body of a worker. If its callback forks, it becomes the reclaimer of the child.
fn run_worker() {
    thread::set_name(c"sheaves-rcu-run");
    if driver::work() {
        run();
    }
}

/// Sleeps until something is to be done, or for `left_ms`.
fn sleep(bell: u32, age_ms: Option<u64>, left_ms: u64) {
    // Relaxed: statistics.
    SLEEPS.fetch_add(1, Ordering::Relaxed);
    // Callbacks may have entered read sections.
    fences::enter_idle();
    let depth = if age_ms.is_some() { UNTIL_AGE } else { IDLE };
    // SeqCst: see the module documentation. [B1]
    SLEEPING.store(depth, Ordering::SeqCst);
    let age_left_ms = age_ms.map(|age| options::age_ms().saturating_sub(age).max(1));
    let limits = age_left_ms.into_iter().chain(keeper::left_ms());
    let limit_ms = limits.fold(left_ms, u64::min).max(1);
    request::sleep(&BELL, bell, limit_ms * 1_000_000);
    // SeqCst: as above.
    SLEEPING.store(AWAKE, Ordering::SeqCst);
}

/// To be called before the program puts itself into a sandbox (seccomp) that does not permit what
/// the library documents for itself: ends the library's threads, for good.
///
/// From then on, in this process and its children, the library makes no system calls but `mmap`,
/// `munmap`, `mremap`, `mprotect`, `madvise` and `futex`. What is deferred is freed by threads that
/// defer and allocate; callbacks run in [`super::poll`] and [`super::barrier`] only. Threads that
/// read for the first time fence in each section; a grace period that has to wait for the fences of
/// others takes 10 ms.
///
/// Waits until the threads have ended, for a second at most: if one is in a callback that takes
/// longer, it ends later. Not for signal handlers. Calling it again changes nothing.
pub fn before_sandbox() {
    fork::run_pending_handlers();
    if let Some(driving) = driver::try_drive() {
        // What other slots have deferred cannot be reached from a sandbox.
        round::begin(&driving);
    }
    let end_ms = clock::coarse_ms() + END_MS;
    sandbox::enter();
    // Relaxed: stored by the reclaimer before `RUNNING` becomes 0.
    let is_there = || is_running() || is_present(ID.load(Ordering::Relaxed));
    while is_there() && !driver::is_driving() && clock::coarse_ms() < end_ms {
        wake_from(UNTIL_AGE);
        thread::sleep_ns(END_LOOK_NS);
    }
}

/// True while the kernel has a thread of this id; 0 stands for none.
fn is_present(id: i32) -> bool {
    id != 0 && thread::is_alive(id)
}

/// The time between two looks whether a thread has ended.
const END_LOOK_NS: u64 = 100_000;
/// Looks of a reclaimer whether the one before it has ended.
const END_LOOKS: u32 = 100;

static HANDLERS: Handlers = Handlers { prepare, parent, child };
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

fn parent() {
    // SAFETY: acquired in `prepare`, by the thread that forked; here and below.
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
    let is_reclaimer = was_worker || is_reclaimer();
    // Relaxed, all: the child has one thread.
    RUNNING.store(if is_reclaimer { BEGUN } else { 0 }, Ordering::Relaxed);
    // A new thread of the child may get the same thread pointer, or the same id.
    THREAD.store(if is_reclaimer { tls::thread_pointer() } else { 0 }, Ordering::Relaxed);
    ID.store(0, Ordering::Relaxed);
    SLEEPING.store(AWAKE, Ordering::Relaxed);
    keeper::restart_in_child();
    if !is_reclaimer && pressure::disarm().is_some() {
        REQUESTS.fetch_or(FLUSH, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/reclaimer.rs"]
mod tests;
