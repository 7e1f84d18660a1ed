//! Waiting for readers by means of a callback.
//!
//! **Source.** Linux, `synchronize_rcu` up to 6.9, before "rcu: Support direct wake-up of
//! synchronize_rcu() users" (2024): `wait_rcu_gp` queues a callback that wakes the caller, among
//! all others. Published for 10 threads of 1000 calls each: 19.76 s for a thread on average, from
//! 17.14 s to 23.45 s.
//!
//! **Reproduced.** One thread waits for a grace period and calls the functions of all callbacks
//! that were queued before it, one by one: both those that free objects and those that wake
//! waiters. The grace periods are those of `sheaves-rcu`.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use sheaves_rcu::InsideReader;
use sheaves_sys::{futex, thread};

/// A callback: a function to be called after a grace period. It must be the first field of its
/// object.
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

/// Callbacks, the youngest first.
#[derive(Debug)]
pub(crate) struct List(AtomicPtr<Head>);

impl List {
    pub(crate) const fn new() -> List {
        List(AtomicPtr::new(core::ptr::null_mut()))
    }

    /// Adds a callback; true if the list was empty.
    pub(crate) fn push(&self, head: *mut Head) -> bool {
        // Relaxed: compared again below.
        let mut first = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: the head is the caller's until the exchange publishes it.
            unsafe { (*head).next = first };
            // Release: partner is the Acquire in `take`. Relaxed on failure: it is tried again.
            match self.0.compare_exchange_weak(first, head, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return first.is_null(),
                Err(now) => first = now,
            }
        }
    }

    /// Takes all callbacks, the oldest first.
    pub(crate) fn take(&self) -> *mut Head {
        // Acquire: partner is the Release in `push`.
        let mut head = self.0.swap(core::ptr::null_mut(), Ordering::Acquire);
        let mut reversed = core::ptr::null_mut();
        // SAFETY: null, or a head that was queued and belongs to this call now.
        while let Some(this) = unsafe { head.as_mut() } {
            let next = this.next;
            this.next = reversed;
            reversed = head;
            head = next;
        }
        reversed
    }
}

/// Calls every function of a list, in order. A head is not accessed after its function was called.
///
/// # Safety
/// The heads were queued, and a grace period has passed since.
pub(crate) unsafe fn run(mut head: *mut Head) {
    // SAFETY: null, or a head of the list.
    while let Some(this) = unsafe { head.as_ref() } {
        let (next, function) = (this.next, this.function);
        // SAFETY: the caller of `call` is responsible for its function.
        unsafe { function(head) };
        head = next;
    }
}

/// Callbacks that wait for the next grace period.
static QUEUE: List = List::new();
/// Changes with each callback that finds the queue empty: the thread sleeps on it.
static QUEUED: AtomicU32 = AtomicU32::new(0);
/// 1 once the thread has been started.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Queues a callback. False when no thread can be started to run it.
///
/// # Safety
/// The head stays where it is until its function is called, which may be in another thread.
#[must_use]
pub unsafe fn call(head: *mut Head) -> bool {
    // Relaxed, both: a flag; `push` publishes.
    if RUNNING.swap(1, Ordering::Relaxed) == 0 && !thread::spawn(|| run_callbacks()) {
        RUNNING.store(0, Ordering::Relaxed);
        return false;
    }
    if QUEUE.push(head) {
        // Release: partner is the Acquire in `run_callbacks`.
        QUEUED.fetch_add(1, Ordering::Release);
        futex::wake_all(&QUEUED);
    }
    true
}

fn run_callbacks() -> ! {
    loop {
        // Acquire: partner is the Release in `call`.
        let queued = QUEUED.load(Ordering::Acquire);
        let head = QUEUE.take();
        if head.is_null() {
            futex::wait(&QUEUED, queued);
            continue;
        }
        sheaves_rcu::synchronize().expect("this thread never reads");
        // SAFETY: queued by `call`, before the grace period began.
        unsafe { run(head) };
    }
}

/// A waiter, on its own stack.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Waiter {
    head: Head,
    pub(crate) done: AtomicU32,
}

/// Marks a waiter as done and wakes it.
///
/// # Safety
/// The head is the first part of a [`Waiter`].
unsafe fn release(head: *mut Head) {
    let waiter = head.cast::<Waiter>();
    // SAFETY: the waiter waits, so it is still there.
    let done = unsafe { &raw const (*waiter).done };
    // SAFETY: as above. Release: partner is the Acquire in `Waiter::is_done`.
    unsafe { &*done }.store(1, Ordering::Release);
    // SAFETY: only the address is used from here on; waking whatever is there then is harmless.
    futex::wake_all(unsafe { &*done });
}

impl Waiter {
    pub(crate) fn new() -> Waiter {
        Waiter { head: Head::new(release), done: AtomicU32::new(0) }
    }

    pub(crate) fn is_done(&self) -> bool {
        // Acquire: partner is the Release in `release`.
        self.done.load(Ordering::Acquire) != 0
    }
}

/// Waits for readers by means of a callback.
///
/// # Errors
/// As [`sheaves_rcu::synchronize`].
pub fn synchronize() -> Result<(), InsideReader> {
    if sheaves_rcu::is_reading() {
        return sheaves_rcu::synchronize();
    }
    let mut waiter = Waiter::new();
    // SAFETY: the waiter stays here until it is done.
    if !unsafe { call((&raw mut waiter).cast()) } {
        return sheaves_rcu::synchronize();
    }
    sheaves_rcu::enter_idle();
    while !waiter.is_done() {
        futex::wait(&waiter.done, 0);
    }
    Ok(())
}

#[cfg(test)]
#[path = "../tests/unit/callback.rs"]
mod tests;
