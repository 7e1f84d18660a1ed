//! Older and wrong ways to wait, for benchmarks and tests alone. Not for programs.
//!
//! - [`synchronize_by_callback`]: a waiter queues a callback that wakes it; a thread waits for a
//!   grace period and runs the callbacks of it one by one, those of others among them.
//! - [`synchronize_as_published`]: the waiters are on a list of their own, all of which is released
//!   at the end of a grace period. That is **wrong**: who came in the middle goes too early.
//! - [`synchronize_with_a_single_drain`]: a domain waits for one of its two indexes. **Wrong**:
//!   a section that took the index before an earlier flip is at the other one.

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use sheaves_sys::{futex, thread};

use crate::expedite::Urgency;
use crate::fences;
use crate::grace::{self, GENERATIONS, InsideReader};

/// A callback: what is to be called when a grace period is over. Has to be first in what it is
/// part of.
#[derive(Debug)]
#[repr(C)]
pub struct Head {
    next: *mut Head,
    function: unsafe fn(*mut Head),
}

impl Head {
    /// A callback that is not queued. It is called with its own address.
    #[must_use]
    pub const fn new(function: unsafe fn(*mut Head)) -> Head {
        Head { next: core::ptr::null_mut(), function }
    }
}

/// Heads that wait for the next grace period, the last one first.
static QUEUE: AtomicPtr<Head> = AtomicPtr::new(core::ptr::null_mut());
/// Changes with each head that finds the queue empty: the thread sleeps on it.
static QUEUED: AtomicU32 = AtomicU32::new(0);
/// 1 once the thread has been started.
static RUNNING: AtomicU32 = AtomicU32::new(0);

fn push(list: &AtomicPtr<Head>, head: *mut Head) -> bool {
    // Relaxed: compared again below.
    let mut first = list.load(Ordering::Relaxed);
    loop {
        // SAFETY: the head is the caller's until the exchange publishes it.
        unsafe { (*head).next = first };
        // Release pairs with the Acquire in `take`. Relaxed on failure: it is tried again.
        match list.compare_exchange_weak(first, head, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return first.is_null(),
            Err(now) => first = now,
        }
    }
}

/// Takes all heads, the first one first.
fn take(list: &AtomicPtr<Head>) -> *mut Head {
    // Acquire pairs with the Release in `push`.
    let mut head = list.swap(core::ptr::null_mut(), Ordering::Acquire);
    let mut reversed = core::ptr::null_mut();
    // SAFETY: null, or a head that was queued and is ours now.
    while let Some(this) = unsafe { head.as_mut() } {
        let next = this.next;
        this.next = reversed;
        reversed = head;
        head = next;
    }
    reversed
}

/// Calls every function of a list, in order. A head is not touched after its function was called.
///
/// # Safety
/// The heads were queued, and readers are gone.
unsafe fn run(mut head: *mut Head) {
    // SAFETY: null, or a head of the list.
    while let Some(this) = unsafe { head.as_ref() } {
        let (next, function) = (this.next, this.function);
        // SAFETY: whoever queued it vouches for its function.
        unsafe { function(head) };
        head = next;
    }
}

/// Queues a callback. False when there can be no thread to run it.
///
/// # Safety
/// The head stays where it is until its function is called, which may be in another thread.
#[must_use]
pub unsafe fn call(head: *mut Head) -> bool {
    // Relaxed, here and below: a flag; `push` publishes.
    if RUNNING.swap(1, Ordering::Relaxed) == 0 && !thread::spawn(run_callbacks) {
        RUNNING.store(0, Ordering::Relaxed);
        return false;
    }
    if push(&QUEUE, head) {
        // Release pairs with the Acquire in `run_callbacks`.
        QUEUED.fetch_add(1, Ordering::Release);
        futex::wake_all(&QUEUED);
    }
    true
}

extern "C" fn run_callbacks(_: *mut c_void) -> *mut c_void {
    loop {
        // Acquire pairs with the Release in `call`.
        let queued = QUEUED.load(Ordering::Acquire);
        let head = take(&QUEUE);
        if head.is_null() {
            futex::wait(&QUEUED, queued);
            continue;
        }
        grace::wait_for(GENERATIONS.next(), Urgency::Normal);
        // SAFETY: queued by `call`, before the grace period began.
        unsafe { run(head) };
    }
}

/// A waiter on its own stack.
#[repr(C)]
struct Waiter {
    head: Head,
    done: AtomicU32,
}

/// Ends a waiter's wait.
///
/// # Safety
/// The head is the first part of a [`Waiter`].
unsafe fn release(head: *mut Head) {
    let waiter = head.cast::<Waiter>();
    // SAFETY: the waiter waits, so it is there.
    let done = unsafe { &raw const (*waiter).done };
    // SAFETY: as above. Release pairs with the Acquire in `Waiter::wait`.
    unsafe { &*done }.store(1, Ordering::Release);
    // SAFETY: only the address is used from here on; a wake-up of what is there by now is harmless.
    futex::wake_all(unsafe { &*done });
}

impl Waiter {
    fn new() -> Waiter {
        Waiter { head: Head::new(release), done: AtomicU32::new(0) }
    }

    fn is_done(&self) -> bool {
        // Acquire pairs with the Release in `release`.
        self.done.load(Ordering::Acquire) != 0
    }
}

/// Waits for readers by means of a callback.
///
/// # Errors
/// As [`crate::synchronize`].
pub fn synchronize_by_callback() -> Result<(), InsideReader> {
    grace::refuse_inside_reader()?;
    let mut waiter = Waiter::new();
    // SAFETY: the waiter stays here until it is done.
    if !unsafe { call((&raw mut waiter).cast()) } {
        return crate::synchronize();
    }
    fences::enter_idle();
    while !waiter.is_done() {
        futex::wait(&waiter.done, 0);
    }
    Ok(())
}

/// Waiters of the published form, and whether somebody leads them.
static PUBLISHED: AtomicPtr<Head> = AtomicPtr::new(core::ptr::null_mut());
static LEAD: AtomicU32 = AtomicU32::new(0);
/// A waiter looks for a lead that has become free after this time.
const LOOK_NS: u64 = 100_000;

/// Waits for readers as the published form does, which may return **too early**.
///
/// # Errors
/// As [`crate::synchronize`].
pub fn synchronize_as_published() -> Result<(), InsideReader> {
    grace::refuse_inside_reader()?;
    let mut waiter = Waiter::new();
    push(&PUBLISHED, (&raw mut waiter).cast());
    fences::enter_idle();
    while !waiter.is_done() {
        // Acquire pairs with the Release below. Relaxed on failure: nothing is read.
        let won = LEAD.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if !won {
            futex::wait_for(&waiter.done, 0, LOOK_NS);
            continue;
        }
        if !waiter.is_done() {
            grace::wait_for(GENERATIONS.next(), Urgency::Normal);
            // SAFETY: waiters, each of which waits.
            unsafe { run(take(&PUBLISHED)) };
        }
        // Release pairs with the Acquire above.
        LEAD.store(0, Ordering::Release);
    }
    Ok(())
}

/// Waits for the sections of a domain that are at its current index, which may be **too early**.
pub fn synchronize_with_a_single_drain(domain: &crate::Srcu) {
    domain.synchronize_with(false);
}
