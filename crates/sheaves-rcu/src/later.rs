//! Waiting for grace periods without blocking a thread: futures, and the thread that wakes them.
//!
//! The first future that has to wait starts one thread for the process, which blocks all signals,
//! waits for grace periods as anybody does, and wakes the futures of those that are over. So no
//! waker ever runs in a thread that merely polls or synchronizes, nor in a signal handler. Where no
//! thread can be started, a future asks to be polled again at once, and leads itself.
//!
//! # Invariants
//! A node is on the list exactly while `is_linked`, and its future is pinned all that time: it
//! unlinks the node when it is dropped. Nodes are touched under the lock only.

use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::future::Future;
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Poll, Waker};

use sheaves_sys::lock::Lock;
use sheaves_sys::{futex, thread};

use crate::cookie::Cookie;
use crate::expedite::Urgency;
use crate::grace::{self, GENERATIONS};

struct Node {
    next: *mut Node,
    previous: *mut Node,
    number: u64,
    is_linked: bool,
    waker: Option<Waker>,
}

/// The futures that wait, in no order.
struct List {
    first: *mut Node,
}

// SAFETY: the nodes are used under the lock only, and wakers may be sent.
unsafe impl Send for List {}

static LIST: Lock<List> = Lock::new(List { first: null_mut() });
/// Changes whenever a future is added: the thread sleeps on it. Written under the lock.
static ADDED: AtomicU32 = AtomicU32::new(0);
/// 1 from the start of the thread on. Written by whoever starts it, and in the child of a fork.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// A future that is ready once a grace period is over. See [`Cookie::finished`].
#[must_use = "futures do nothing unless polled"]
pub struct Finished {
    cookie: Cookie,
    node: UnsafeCell<Node>,
    _pinned: PhantomPinned,
}

// SAFETY: the node is used under the lock only, wherever the future is.
unsafe impl Send for Finished {}
// SAFETY: a shared future gives access to nothing.
unsafe impl Sync for Finished {}

impl core::fmt::Debug for Finished {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Finished").field("cookie", &self.cookie).finish()
    }
}

impl Finished {
    pub(crate) fn new(cookie: Cookie) -> Finished {
        let node = Node {
            next: null_mut(),
            previous: null_mut(),
            number: cookie.to_bits(),
            is_linked: false,
            waker: None,
        };
        Finished { cookie, node: UnsafeCell::new(node), _pinned: PhantomPinned }
    }

    /// Sees to it that the waker is called when the grace period is over.
    fn enlist(&self, waker: Waker) {
        let mut list = LIST.lock();
        // SAFETY: the node is used under the lock, which is held.
        let node = unsafe { &mut *self.node.get() };
        let before = node.waker.replace(waker);
        if !node.is_linked {
            list.link(node);
        }
        drop(list);
        drop(before);
    }
}

impl Future for Finished {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.cookie.poll() {
            return Poll::Ready(());
        }
        if is_running() {
            self.enlist(context.waker().clone());
            // Relaxed: the lock orders; the value says only that there is something new.
            ADDED.fetch_add(1, Ordering::Relaxed);
            futex::wake_all(&ADDED);
            // Relaxed: whoever was starting the thread, and could not, has emptied the list after
            // that; if it did so before we came, the lock lets us see it here.
            if RUNNING.load(Ordering::Relaxed) == 0 {
                context.waker().wake_by_ref();
            }
        } else {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Finished {
    fn drop(&mut self) {
        let mut list = LIST.lock();
        // SAFETY: the node is used under the lock, which is held.
        let node = unsafe { &mut *self.node.get() };
        if node.is_linked {
            list.unlink(node);
        }
        let waker = node.waker.take();
        drop(list);
        drop(waker);
    }
}

impl List {
    fn link(&mut self, node: &mut Node) {
        node.is_linked = true;
        node.previous = null_mut();
        node.next = self.first;
        // SAFETY: null, or a node on the list, which is used under the lock only.
        if let Some(first) = unsafe { self.first.as_mut() } {
            first.previous = node;
        }
        self.first = node;
    }

    fn unlink(&mut self, node: &mut Node) {
        node.is_linked = false;
        // SAFETY: null, or a node on the list, which is used under the lock only.
        match unsafe { node.previous.as_mut() } {
            Some(previous) => previous.next = node.next,
            None => self.first = node.next,
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { node.next.as_mut() } {
            next.previous = node.previous;
        }
    }

    /// The lowest number on the list.
    fn lowest(&self) -> Option<u64> {
        let mut lowest = None;
        let mut at = self.first.cast_const();
        // SAFETY: null, or a node on the list, which is used under the lock only.
        while let Some(node) = unsafe { at.as_ref() } {
            lowest = Some(lowest.map_or(node.number, |number: u64| number.min(node.number)));
            at = node.next;
        }
        lowest
    }

    /// Takes a node off the list whose grace period is over: its waker.
    fn take_complete(&mut self) -> Option<Waker> {
        let mut at = self.first;
        // SAFETY: null, or a node on the list, which is used under the lock only.
        while let Some(node) = unsafe { at.as_mut() } {
            at = node.next;
            if GENERATIONS.is_complete(node.number) {
                self.unlink(node);
                if let Some(waker) = node.waker.take() {
                    return Some(waker);
                }
            }
        }
        None
    }
}

/// Is the thread there, now at least?
fn is_running() -> bool {
    // Relaxed, all: a flag; what the thread looks at is under the lock.
    if RUNNING.load(Ordering::Relaxed) != 0 {
        return true;
    }
    if RUNNING.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        return true;
    }
    let started = thread::spawn(run);
    if !started {
        RUNNING.store(0, Ordering::Relaxed);
        // A future that came in between is on the list: it goes without the thread from now on.
        while let Some(waker) = take_any() {
            waker.wake();
        }
    }
    started
}

/// Takes any node off the list: its waker.
fn take_any() -> Option<Waker> {
    let mut list = LIST.lock();
    loop {
        // SAFETY: null, or a node on the list, which is used under the lock only.
        let node = unsafe { list.first.as_mut() }?;
        list.unlink(node);
        if let Some(waker) = node.waker.take() {
            return Some(waker);
        }
    }
}

/// The thread.
extern "C" fn run(_: *mut c_void) -> *mut c_void {
    loop {
        // Relaxed: read before the list; what is added later changes it.
        let added = ADDED.load(Ordering::Relaxed);
        let completed = GENERATIONS.completed();
        let lowest = LIST.lock().lowest();
        let Some(number) = lowest else {
            futex::wait(&ADDED, added);
            continue;
        };
        // One grace period at a time: a future of an earlier one may come while a later one is
        // waited for, and its readers may be gone long before those of the later one.
        grace::wait_for(number.min(completed + 1), Urgency::Normal);
        loop {
            // The lock is given back before the waker runs.
            let waker = LIST.lock().take_complete();
            let Some(waker) = waker else { break };
            waker.wake();
        }
    }
}

/// Before a fork: nobody is in the middle of changing the list.
pub(crate) fn acquire() {
    LIST.acquire();
}

pub(crate) fn release() {
    // SAFETY: taken by `acquire` in the thread that forked, without a guard.
    unsafe { LIST.release() };
}

/// In the child of a fork: the thread is not there. Futures keep their places on the list.
pub(crate) fn restart_in_child() {
    // Relaxed: the child has one thread.
    RUNNING.store(0, Ordering::Relaxed);
}
