//! The *driver*: the one thread at a time that reclaims what is ready; and its workers.
//!
//! A fork does not wait for the driver, which runs what the program has deferred. In the child, it
//! goes on if it is the thread that forked; otherwise there is none. All state that it works on is
//! kept so that another driver can go on with it.
//!
//! With `SHEAVES_RCU_RECLAIMERS=slots` workers run the callbacks for the driver: one per CPU that
//! the main thread may use, pinned to it, each for its share of the shards of calls. The driver
//! waits for its workers: when it goes on, their callbacks have run.
//!
//! | state of a worker | meaning | transitions |
//! |---|---|---|
//! | [`ABSENT`] | there is no thread | -> waiting, by the reclaimer that starts it |
//! | [`WAITING`] | it sleeps on this word | -> working or leaving, by the driver |
//! | [`WORKING`] | it runs what is ready in its shards | -> waiting, by itself |
//! | [`LEAVING`] | it is to end | -> absent, by itself as its last step |
//!
//! In the child of a fork there are none, except one whose callback has forked: it finishes its
//! share as the driver, and is the reclaimer from then on, on all CPUs.

use core::ptr::{from_ref, null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use sheaves_sys::lock::Word;
use sheaves_sys::topology::{Affinity, possible_cpus};
use sheaves_sys::{fork, futex, process, restart_word, tls};

use super::calls;
use super::watch::{self, CHECK_NS, WORKERS_MAX};

/// Held by the driver.
static DRIVER: Word = Word::new();
/// The driver's thread pointer, 0 while there is none. Written by the driver.
static THREAD: AtomicUsize = AtomicUsize::new(0);

/// The calling thread is the driver while this exists.
#[must_use = "the thread is the driver as long as this exists"]
pub(crate) struct Driver(());

impl Driver {
    /// For the thread that has taken [`DRIVER`].
    fn begin() -> Driver {
        // Relaxed: a thread that finds its own pointer here has stored it itself.
        THREAD.store(tls::thread_pointer(), Ordering::Relaxed);
        Driver(())
    }
}

/// Something that was deferred has deferred another thing otherwise than onto a sheaf of its slot.
static HAS_FOLLOWERS: AtomicBool = AtomicBool::new(false);

/// To be called after something was deferred otherwise than onto the sheaf of a slot.
pub(crate) fn note_deferred() {
    if is_inside_call() {
        // Relaxed: the driver reads it in the same thread, or after its workers. [K2]
        HAS_FOLLOWERS.store(true, Ordering::Relaxed);
    }
}

/// True if [`note_deferred`] was called inside of what the driver and its workers have run.
pub(crate) fn take_followers(_: &Driver) -> bool {
    // Relaxed, both: as in `note_deferred`. Mostly there are none.
    HAS_FOLLOWERS.load(Ordering::Relaxed) && HAS_FOLLOWERS.swap(false, Ordering::Relaxed)
}

/// Makes the calling thread the driver if there is none. Never waits.
pub(crate) fn try_become_driver() -> Option<Driver> {
    DRIVER.try_acquire().then(Driver::begin)
}

/// Makes the calling thread the driver, after the current one. Not for the driver itself.
pub(crate) fn become_driver() -> Driver {
    fork::run_pending_handlers();
    DRIVER.acquire(|word, value| {
        futex::wait_for(word, value, CHECK_NS);
        watch::report_stalled();
    });
    Driver::begin()
}

/// True if the calling thread is the driver or a worker: it is inside something that was deferred.
pub(crate) fn is_inside_call() -> bool {
    is_driver() || is_worker()
}

fn is_driver() -> bool {
    // Relaxed: see `Driver::begin`.
    THREAD.load(Ordering::Relaxed) == tls::thread_pointer()
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Relaxed: see `Driver::begin`.
        THREAD.store(0, Ordering::Relaxed);
        // SAFETY: taken by this thread, or by a worker on its behalf, see `restart_in_child`.
        unsafe { DRIVER.release() };
    }
}

const ABSENT: u32 = 0;
const WAITING: u32 = 1;
const WORKING: u32 = 2;
const LEAVING: u32 = 3;

/// On cache lines of its own.
#[repr(align(128))]
struct Worker {
    state: AtomicU32,
    /// Its thread pointer, 0 for none. Written by the worker, and in the child of a fork.
    thread: AtomicUsize,
    /// The CPUs of the main thread, null if unknown: in the frame of [`work`], for its callbacks.
    allowed: AtomicPtr<Affinity>,
}

static WORKERS: [Worker; WORKERS_MAX] = [const {
    Worker {
        state: AtomicU32::new(ABSENT),
        thread: AtomicUsize::new(0),
        allowed: AtomicPtr::new(null_mut()),
    }
}; WORKERS_MAX];
/// Number of workers, written by the reclaimer and in the child of a fork; and the next number.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static NUMBERED: AtomicUsize = AtomicUsize::new(0);

/// The CPUs of the main thread, which those of the library's threads are.
fn affinity() -> Option<Affinity> {
    Affinity::of(process::id())
}

/// Starts the workers if they do not exist, by `spawn`. For the reclaimer.
pub(crate) fn start_workers(spawn: impl Fn() -> bool) {
    // Relaxed, here and below: only the reclaimer writes these; a new thread sees what came before.
    if COUNT.load(Ordering::Relaxed) != 0 {
        return;
    }
    NUMBERED.store(0, Ordering::Relaxed);
    let start = |worker: &&Worker| {
        worker.state.store(WAITING, Ordering::Relaxed);
        spawn()
    };
    let cpus = affinity().map_or_else(possible_cpus, |allowed| allowed.cpu_ids().count());
    let started = WORKERS.iter().take(cpus).take_while(start).count();
    // Stored once: all threads agree which worker has which shard.
    COUNT.store(started, Ordering::Relaxed);
}

/// Ends the workers, and waits until they have ended. For the reclaimer, which is not the driver:
/// it becomes that, as another driver may wait for what they run.
pub(crate) fn stop_workers() {
    // Relaxed, here and below: as in `start_workers`.
    if COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    let _role = become_driver();
    let count = COUNT.swap(0, Ordering::Relaxed);
    for worker in &WORKERS[..count] {
        worker.state.store(LEAVING, Ordering::Relaxed);
        futex::wake(&worker.state, 1);
    }
    for worker in &WORKERS[..count] {
        while worker.state.load(Ordering::Relaxed) == LEAVING {
            futex::wait(&worker.state, LEAVING);
        }
    }
}

/// Runs the callbacks that are ready, in the workers of their shards if there are any; true if
/// there was one.
pub(crate) fn run_calls(_: &Driver) -> bool {
    // Relaxed: only the reclaimer changes it. Another driver reads some of them, or none.
    let count = COUNT.load(Ordering::Relaxed);
    if count == 0 {
        return calls::run_ready(watch::DRIVER, 0, 1);
    }
    let mut any = false;
    for (number, worker) in WORKERS[..count].iter().enumerate() {
        if calls::has_ready(number, count) {
            any = true;
            // Release pairs with the Acquire in `work`: a grace period has passed. [K1]
            worker.state.store(WORKING, Ordering::Release);
            futex::wake(&worker.state, 1);
        }
    }
    for worker in &WORKERS[..count] {
        // Acquire pairs with the Release in `work`: the callbacks have run. [K2]
        while worker.state.load(Ordering::Acquire) == WORKING {
            futex::wait_for(&worker.state, WORKING, CHECK_NS);
            watch::report_stalled();
        }
    }
    any
}

pub(crate) fn is_worker() -> bool {
    // Relaxed: see `Driver::begin`.
    let is_own = |worker: &Worker| worker.thread.load(Ordering::Relaxed) == tls::thread_pointer();
    // Relaxed: most programs have none.
    COUNT.load(Ordering::Relaxed) != 0 && WORKERS.iter().any(is_own)
}

/// The body of a worker. It returns when it is to end, and true if its callback has forked, in the
/// child, at the end of its share.
pub(crate) fn work() -> bool {
    // Relaxed, both: numbers.
    let number = NUMBERED.fetch_add(1, Ordering::Relaxed);
    let worker = &WORKERS[number];
    worker.thread.store(tls::thread_pointer(), Ordering::Relaxed);
    let allowed = affinity();
    let place = allowed.as_ref().map_or(null(), from_ref).cast_mut();
    // Relaxed: only this thread follows it.
    worker.allowed.store(place, Ordering::Relaxed);
    // If binding is refused, it runs on any of these CPUs.
    let cpu_id = allowed.as_ref().and_then(|allowed| allowed.cpu_ids().nth(number));
    let _ = cpu_id.and_then(Affinity::only).is_some_and(|only| only.bind());
    loop {
        // Acquire pairs with the Release in `run_calls`. [K1]
        match worker.state.load(Ordering::Acquire) {
            WAITING => futex::wait(&worker.state, WAITING),
            WORKING => {
                // Relaxed: as in `start_workers`; it is written while nothing is ready.
                calls::run_ready(watch::WORKERS + number, number, COUNT.load(Ordering::Relaxed));
                calls::refuse_open_section();
                // Release pairs with the Acquire in `run_calls`. Relaxed on failure: this is a
                // child. [K2]
                let (done, failed) = (Ordering::Release, Ordering::Relaxed);
                if worker.state.compare_exchange(WORKING, WAITING, done, failed).is_ok() {
                    futex::wake(&worker.state, 1);
                }
            }
            LEAVING => {
                // Relaxed, both: only this thread is named by the first; the second says nothing
                // but that it ends.
                worker.thread.store(0, Ordering::Relaxed);
                worker.state.store(ABSENT, Ordering::Relaxed);
                futex::wake(&worker.state, 1);
                return false;
            }
            // A callback has forked, and this is the child. That of `_Fork` is still bound.
            _ => {
                unbind(worker);
                drop(Driver(()));
                return true;
            }
        }
    }
}

/// Lets the calling thread, a worker, run on all CPUs that its process may use.
fn unbind(worker: &Worker) {
    // Relaxed: stored by this thread.
    let allowed = worker.allowed.load(Ordering::Relaxed);
    // SAFETY: null, or in the frame of `work`, which has not returned.
    let _ = unsafe { allowed.as_ref() }.is_some_and(Affinity::bind);
}

/// In the child of a fork: see the module documentation. True if the calling thread was a worker.
pub(crate) fn restart_in_child() -> bool {
    let was_worker = is_worker();
    if !self::is_driver() {
        watch::end_in_child(watch::DRIVER);
    }
    for (number, worker) in WORKERS.iter().enumerate() {
        // Relaxed: see `Driver::begin`.
        if worker.thread.load(Ordering::Relaxed) != tls::thread_pointer() {
            watch::end_in_child(watch::WORKERS + number);
        } else if !fork::is_late() {
            unbind(worker);
        }
        restart_word!(worker.state, ABSENT);
        restart_word!(worker.thread, 0);
    }
    restart_word!(COUNT, 0);
    let is_driver = was_worker || self::is_driver();
    restart_word!(THREAD, if is_driver { tls::thread_pointer() } else { 0 });
    DRIVER.restart_in_child(is_driver);
    was_worker
}
