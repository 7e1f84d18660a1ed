//! A background flood of ordinary callbacks: each frees an object, and queues the next one.
//!
//! So there are as many callbacks at any time as were queued in the beginning, however busy the
//! processors are: a thread with a callback of its own waits behind them.

use alloc::boxed::Box;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// What a callback frees: room for the callback's head, and 32 bytes of content.
#[repr(C)]
pub(crate) struct Object {
    head: [usize; 2],
    flood: NonNull<Flood>,
    content: [u8; 24],
}

/// Queues an object, of which [`Object::end`] is called when readers are gone.
type Queue = Box<dyn Fn(NonNull<Object>) + Send + Sync>;

/// How many callbacks there are, and were.
pub(crate) struct Flood {
    queue: Queue,
    queued: AtomicUsize,
    ended: AtomicUsize,
    is_over: AtomicBool,
    asleep: Mutex<()>,
    changed: Condvar,
}

impl Flood {
    pub(crate) fn new(queue: Queue) -> Flood {
        Flood {
            queue,
            queued: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            asleep: Mutex::new(()),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn queued(&self) -> usize {
        // Relaxed: a callback counts the one that it queues before it counts as ended.
        self.queued.load(Ordering::Relaxed)
    }

    pub(crate) fn ended(&self) -> usize {
        // Acquire: partner is the addition in `Object::end`.
        self.ended.load(Ordering::Acquire)
    }

    /// Queues one more callback, which queues the next one.
    pub(crate) fn queue(&self) {
        let object =
            Box::new(Object { head: [0; 2], flood: NonNull::from(self), content: [14; 24] });
        // Relaxed: see `queued`.
        self.queued.fetch_add(1, Ordering::Relaxed);
        (self.queue)(NonNull::from(Box::leak(object)));
    }

    /// Waits until the flood is over, then until all callbacks have been called.
    pub(crate) fn wait(&self) {
        self.sleep_while(|| !self.is_over());
        self.sleep_while(|| self.ended() < self.queued());
    }

    /// Callbacks queue no others from now on.
    pub(crate) fn end(&self) {
        // Relaxed: the lock below orders.
        self.is_over.store(true, Ordering::Relaxed);
        // Under the lock, so that a thread that is about to sleep does not miss it, and so that the
        // flood is not dropped before the last callback is done with it.
        let _guard = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
    }

    fn is_over(&self) -> bool {
        // Relaxed: as in `end`; one more does no harm.
        self.is_over.load(Ordering::Relaxed)
    }

    fn sleep_while(&self, condition: impl Fn() -> bool) {
        let guard = self.asleep.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(guard, |()| condition());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Object {
    /// What the callback does: frees the object, and queues another one.
    ///
    /// # Safety
    /// The object was queued by [`Flood::queue`], and readers are gone.
    pub(crate) unsafe fn end(object: NonNull<Object>) {
        // SAFETY: from a box that was leaked, once.
        let object = unsafe { Box::from_raw(object.as_ptr()) };
        let flood = object.flood;
        drop(core::hint::black_box(object));
        // SAFETY: a flood waits for all its callbacks before it is dropped.
        let flood = unsafe { flood.as_ref() };
        if !flood.is_over() {
            flood.queue();
        }
        // Relaxed: callbacks run on one thread, which alone adds.
        let ended = flood.ended.load(Ordering::Relaxed) + 1;
        // The last one wakes the waiter, and counts only once it has the lock:
        // a waiter that sees the count complete finds no thread in here.
        if ended == flood.queued() {
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
