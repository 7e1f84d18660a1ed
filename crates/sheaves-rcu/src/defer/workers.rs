//! Worker threads, which run callbacks for the driver: one per CPU, pinned to it.
//!
//! They exist if `SHEAVES_RCU_RECLAIMERS=slots` is set. Each has its share of the shards of calls.
//! So callbacks that a slot has deferred run on one CPU, in parallel with those of other slots on
//! other CPUs. Everything else stays with the driver, which starts the workers and waits for them:
//! when it goes on, their callbacks have run.
//!
//! | state of a worker | meaning | transitions |
//! |---|---|---|
//! | [`ABSENT`] | there is no thread | -> idle, by the reclaimer that starts it |
//! | [`IDLE`] | it sleeps on this word | -> working, by the driver |
//! | [`WORKING`] | it runs what is ready in its shards | -> idle, by itself |
//!
//! In the child of a fork there are none, except one whose callback has forked: it finishes its
//! share as the driver, and is the reclaimer from then on.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use sheaves_sys::topology::{Affinity, possible_cpus};
use sheaves_sys::{futex, thread, tls};

use super::{calls, driver, options, reclaimer, watch};

/// The most workers: a shard has one worker.
pub(super) const WORKERS_MAX: usize = calls::SHARDS;

const ABSENT: u32 = 0;
const IDLE: u32 = 1;
const WORKING: u32 = 2;

const NAME: &CStr = c"sheaves-rcu-run";
/// How often a thread that waits for a worker checks for a stalled callback.
const LOOK_NS: u64 = 100_000_000;

/// On cache lines of its own.
#[repr(align(128))]
struct Worker {
    state: AtomicU32,
    /// Its thread pointer, 0 while there is none. Written by the worker, and in the child of a
    /// fork.
    thread: AtomicUsize,
}

static WORKERS: [Worker; WORKERS_MAX] =
    [const { Worker { state: AtomicU32::new(ABSENT), thread: AtomicUsize::new(0) } }; WORKERS_MAX];
/// How many there are, and how many of them have taken a number. The first is written by the
/// reclaimer that starts them, and in the child of a fork.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static NUMBERED: AtomicUsize = AtomicUsize::new(0);

/// Starts the workers if the option asks for them and they do not exist. For the reclaimer.
pub(super) fn start() {
    // Relaxed, all of this function: only the reclaimer writes these; a new thread sees what came
    // before.
    if !options::has_workers() || COUNT.load(Ordering::Relaxed) != 0 {
        return;
    }
    let wanted = possible_cpus().clamp(1, WORKERS_MAX);
    let mut started = 0;
    NUMBERED.store(0, Ordering::Relaxed);
    for (count, worker) in WORKERS.iter().take(wanted).enumerate() {
        worker.state.store(IDLE, Ordering::Relaxed);
        if !thread::spawn(run) {
            worker.state.store(ABSENT, Ordering::Relaxed);
            break;
        }
        started = count + 1;
    }
    // Stored once, so that all threads agree which worker has which shard.
    COUNT.store(started, Ordering::Relaxed);
}

/// Runs the callbacks that are ready, each in the worker of its shard; true if there was one.
/// `None` if there are no workers. For the driver.
pub(super) fn run_ready() -> Option<bool> {
    // Relaxed: only the reclaimer changes it. Another driver reads some of them, or none.
    let count = COUNT.load(Ordering::Relaxed);
    if count == 0 {
        return None;
    }
    let mut started = 0_u32;
    for (number, worker) in WORKERS[..count].iter().enumerate() {
        if calls::has_ready(number, count) {
            started |= 1 << number;
            // Release pairs with the Acquire in `run`: a grace period has passed. [K1]
            worker.state.store(WORKING, Ordering::Release);
            futex::wake(&worker.state, 1);
        }
    }
    for (_, worker) in WORKERS.iter().enumerate().filter(|(number, _)| started >> number & 1 != 0) {
        // Acquire pairs with the Release in `run`: the callbacks have run. [K2]
        while worker.state.load(Ordering::Acquire) == WORKING {
            futex::wait_for(&worker.state, WORKING, LOOK_NS);
            watch::look();
        }
    }
    Some(started != 0)
}

/// True if the calling thread is a worker. Then it is inside a callback.
pub(super) fn is_worker() -> bool {
    // Relaxed: a thread that compares it with its own pointer has stored it itself, or finds
    // another.
    let is_own = |worker: &Worker| worker.thread.load(Ordering::Relaxed) == tls::thread_pointer();
    // Relaxed: most programs have none.
    COUNT.load(Ordering::Relaxed) != 0 && WORKERS.iter().any(is_own)
}

/// The body of a worker.
extern "C" fn run(_: *mut c_void) -> *mut c_void {
    thread::set_name(NAME);
    // Relaxed, both: numbers.
    let number = NUMBERED.fetch_add(1, Ordering::Relaxed);
    let worker = &WORKERS[number];
    worker.thread.store(tls::thread_pointer(), Ordering::Relaxed);
    // If binding is refused, it runs on any CPU.
    let _ = Affinity::only(number).is_some_and(|only| only.bind());
    loop {
        // Acquire pairs with the Release in `run_ready`. [K1]
        match worker.state.load(Ordering::Acquire) {
            IDLE => futex::wait(&worker.state, IDLE),
            WORKING => {
                // Relaxed: as in `start`; it is written while nothing is ready.
                calls::run_share(number, COUNT.load(Ordering::Relaxed));
                // Release pairs with the Acquire in `run_ready`. Relaxed on failure: this is a
                // child. [K2]
                let ended = worker.state.compare_exchange(
                    WORKING,
                    IDLE,
                    Ordering::Release,
                    Ordering::Relaxed,
                );
                if ended.is_ok() {
                    futex::wake(&worker.state, 1);
                }
            }
            // A callback has forked, and this is the child.
            _ => {
                driver::end_of_orphan();
                return reclaimer::run(core::ptr::null_mut());
            }
        }
    }
}

/// In the child of a fork: there are none. True if the calling thread was one; then it drives.
pub(super) fn restart_in_child() -> bool {
    let was_worker = is_worker();
    for worker in &WORKERS {
        // Relaxed, both: the child has one thread.
        worker.state.store(ABSENT, Ordering::Relaxed);
        worker.thread.store(0, Ordering::Relaxed);
    }
    // Relaxed: as above.
    COUNT.store(0, Ordering::Relaxed);
    was_worker
}
