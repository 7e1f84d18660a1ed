//! A background flood of ordinary callbacks: each frees an object.
//!
//! One thread allocates objects and queues them so that a fixed number of callbacks is queued at
//! any time, in portions, while others wait for readers.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::contender::wait::Wait;

/// Portions in which the flood is queued again.
const PORTIONS: usize = 10;

/// What a callback frees: room for the callback's head, and 32 bytes of content.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Object {
    head: [usize; 2],
    flood: NonNull<Flood>,
    content: [u8; 24],
}

/// How many callbacks there are, and were.
#[derive(Debug)]
pub(crate) struct Flood {
    /// So many are queued at any time.
    limit: usize,
    queued: AtomicUsize,
    ended: AtomicUsize,
    is_over: AtomicBool,
    asleep: Mutex<()>,
    changed: Condvar,
}

impl Flood {
    /// A flood of `limit` callbacks.
    pub(crate) fn new(limit: usize) -> Flood {
        Flood {
            limit,
            queued: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            asleep: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    /// Callbacks that were queued.
    pub(crate) fn queued(&self) -> usize {
        // Relaxed: written by the one thread that queues.
        self.queued.load(Ordering::Relaxed)
    }

    /// Callbacks that were called.
    pub(crate) fn ended(&self) -> usize {
        // Acquire: partner is the addition in `Object::end`.
        self.ended.load(Ordering::Acquire)
    }

    /// Queues objects until the limit is reached.
    pub(crate) fn queue_up_to_limit<C: Wait>(&self, contender: &C) {
        while self.queued() - self.ended() < self.limit {
            let object =
                Box::new(Object { head: [0; 2], flood: NonNull::from(self), content: [14; 24] });
            // Relaxed: this thread alone queues.
            self.queued.fetch_add(1, Ordering::Relaxed);
            // SAFETY: fresh, and given up here.
            unsafe { contender.call(NonNull::from(Box::leak(object))) };
        }
    }

    /// Keeps the number of callbacks at the limit until the flood is over, then until all of them
    /// have been called.
    pub(crate) fn run<C: Wait>(&self, contender: &C) {
        contender.enter_thread();
        while !self.is_over() {
            self.queue_up_to_limit(contender);
            contender.pause();
            let portion = self.limit / PORTIONS;
            self.sleep_while(|| {
                self.queued() - self.ended() > self.limit - portion && !self.is_over()
            });
            contender.resume();
        }
        contender.pause();
        self.wait_for_all();
        contender.resume();
        contender.leave_thread();
    }

    /// Waits until everything that was queued has been called.
    pub(crate) fn wait_for_all(&self) {
        self.sleep_while(|| self.ended() < self.queued());
    }

    /// Nothing more is queued.
    pub(crate) fn end(&self) {
        // Relaxed: the lock below orders.
        self.is_over.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn is_over(&self) -> bool {
        // Relaxed: as in `end`; one portion more does no harm.
        self.is_over.load(Ordering::Relaxed)
    }

    fn sleep_while(&self, condition: impl Fn() -> bool) {
        let guard = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(guard, |()| condition());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn wake(&self) {
        // Under the lock, so that who is about to sleep does not miss it, and so that the flood is
        // not dropped before the last callback is done with it.
        let _guard = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }
}

impl Object {
    /// What the callback does: frees the object.
    ///
    /// # Safety
    /// The object was queued by [`Flood::queue_up_to_limit`], and readers are gone.
    pub(crate) unsafe fn end(object: NonNull<Object>) {
        // SAFETY: from a box that was leaked, once.
        let object = unsafe { Box::from_raw(object.as_ptr()) };
        let flood = object.flood;
        drop(core::hint::black_box(object));
        // SAFETY: a flood waits for all its callbacks before it is dropped.
        let flood = unsafe { flood.as_ref() };
        let portion = (flood.limit / PORTIONS).max(1);
        // Relaxed: callbacks run on one thread, which alone adds.
        let ended = flood.ended.load(Ordering::Relaxed) + 1;
        // The last of a portion wakes whoever queues the next one, and waits with the count until
        // it has the lock: who sees it complete under the lock finds nobody in here.
        if ended % portion == 0 || ended == flood.queued() {
            let guard = flood.asleep.lock().unwrap_or_else(PoisonError::into_inner);
            flood.ended.store(ended, Ordering::Release);
            flood.changed.notify_all();
            drop(guard);
        } else {
            // Release: partner is the load in `ended`.
            flood.ended.store(ended, Ordering::Release);
        }
    }
}
