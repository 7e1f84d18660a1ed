//! Ways to wait for readers, and those of Sheaves.

use core::arch::asm;
use core::hint::black_box;
use core::ptr::NonNull;
use core::time::Duration;
use std::sync::Once;
use std::time::Instant;

use sheaves_history::callback;
use sheaves_rcu::defer;

use super::flood::Object;
use crate::harness::out_of_memory;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// The thread of `callback`, whatever the contender.
    Older,
    /// The contender's own `call_rcu`.
    Own,
}

pub(super) trait Wait: Send + Sync + 'static {
    /// Runs on a thread before it waits or queues: from now on it is one that may read.
    fn enter_thread(&self);

    /// Runs on a thread that will not read for a while.
    fn leave_thread(&self) {}

    /// Runs before a thread that has entered sleeps, and does not wait for readers with it.
    fn pause(&self) {}

    fn resume(&self) {}

    /// Runs sections that last for as many steps, of about a nanosecond each.
    fn read(&self, sections: usize, steps: usize);

    /// Waits until all sections that have begun are over.
    fn synchronize(&self);

    /// Queues an object to be taken back by [`Object::end`] when readers are gone.
    ///
    /// # Safety
    /// The object is not queued yet, and is not used any more.
    unsafe fn call(&self, queue: Queue, object: NonNull<Object>);

    /// Grace periods and membarriers so far, where they are counted.
    fn counts(&self) -> Option<[u64; 2]> {
        None
    }
}

/// The calls of a thread, in nanoseconds, and when the first began and the last ended.
pub(super) struct Worked {
    pub(super) start: Instant,
    pub(super) end: Instant,
    pub(super) calls: Vec<u64>,
}

impl Worked {
    pub(super) fn time(&self) -> Duration {
        self.end - self.start
    }
}

/// `direct`, `callback` and `prototype`: the same grace periods, and three ways to be woken at the
/// end of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ours<F> {
    synchronize: F,
}

impl<F> Ours<F> {
    pub(super) fn new(synchronize: F) -> Ours<F> {
        static STARTED: Once = Once::new();
        STARTED.call_once(end_startup);
        Ours { synchronize }
    }
}

/// While a program starts its grace periods are expedited. Programs are measured as they run later.
fn end_startup() {
    sheaves_rcu::end_startup();
    // The start lasts for a second at least.
    std::thread::sleep(core::time::Duration::from_millis(1100));
}

impl<F> Wait for Ours<F>
where
    F: Fn() -> Result<(), sheaves_rcu::InsideReader> + Send + Sync + 'static,
{
    fn enter_thread(&self) {
        // The first section of a thread registers it.
        drop(sheaves_rcu::read());
    }

    fn leave_thread(&self) {
        sheaves_rcu::enter_idle();
    }

    fn read(&self, sections: usize, steps: usize) {
        let mut value = 1_u64;
        for _ in 0..sections {
            let _section = sheaves_rcu::read();
            for _ in 0..steps {
                value = value.wrapping_mul(5).wrapping_add(1);
                // SAFETY: no instruction: it keeps the steps from being optimised away, in a
                // register, as in C.
                unsafe {
                    asm!("/* {0} */", inout(reg) value, options(nomem, nostack, preserves_flags));
                };
            }
        }
        black_box(value);
    }

    #[inline]
    fn synchronize(&self) {
        (self.synchronize)().expect("this thread is in no section");
    }

    unsafe fn call(&self, queue: Queue, object: NonNull<Object>) {
        match queue {
            // SAFETY: the same contract.
            Queue::Older => unsafe { call_back(object) },
            // SAFETY: as above.
            Queue::Own => unsafe { call_deferred(object) },
        }
    }

    fn counts(&self) -> Option<[u64; 2]> {
        let statistics = sheaves_rcu::statistics();
        Some([statistics.grace_periods, statistics.membarriers])
    }
}

/// Queues an object for the thread of `callback`.
///
/// # Safety
/// As [`Wait::call`].
unsafe fn call_back(object: NonNull<Object>) {
    let head = object.cast::<callback::Head>();
    // SAFETY: the object begins with room for the head, and is the caller's.
    unsafe { head.write(callback::Head::new(end)) };
    // SAFETY: the object stays where it is until `end` takes it back.
    if !unsafe { callback::call(head.as_ptr()) } {
        out_of_memory();
    }
}

/// Defers an object as programs do.
///
/// # Safety
/// As [`Wait::call`].
unsafe fn call_deferred(object: NonNull<Object>) {
    let head = object.cast::<defer::Head>();
    // SAFETY: the object begins with room for the head, and is the caller's.
    unsafe { head.write(defer::Head::new()) };
    // SAFETY: the object stays where it is until `end_deferred` takes it back.
    unsafe { defer::call_rcu(head.as_ptr(), end_deferred) };
}

/// # Safety
/// The head is that of an object that was queued.
unsafe extern "C" fn end_deferred(head: *mut defer::Head) {
    // SAFETY: the same contract; both heads are at the beginning of the object.
    unsafe { end(head.cast()) };
}

/// # Safety
/// The head is that of an object that was queued.
unsafe fn end(head: *mut callback::Head) {
    // SAFETY: never null.
    let object = unsafe { NonNull::new_unchecked(head) }.cast();
    // SAFETY: the object was queued, once.
    unsafe { Object::end(object) };
}

const _: () = {
    assert!(size_of::<callback::Head>() <= size_of::<[usize; 2]>());
    assert!(size_of::<defer::Head>() <= size_of::<[usize; 2]>());
};
