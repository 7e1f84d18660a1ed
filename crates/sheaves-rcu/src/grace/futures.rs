//! Waiting for grace periods without blocking a thread: futures, and the waker thread.
//!
//! The first future that has to wait starts the waker thread. It blocks all signals, waits for
//! grace periods like any other thread, and wakes the futures whose grace periods are over. So
//! wakers never run in a thread that only polls or synchronizes, nor in a signal handler. Where no
//! thread can be started, a future asks to be polled again at once, and leads itself.
//!
//! In the child of a fork the list is empty: its nodes were on stacks of threads that are gone. A
//! future of the thread that forked may be polled and dropped there; nothing wakes it before.
//!
//! # Invariants
//! A node is on the list exactly while it carries the list's number. Its future is pinned all that
//! time, and unlinks the node when it is dropped. Nodes are accessed under the lock only, through
//! raw pointers: there is never a reference to a whole node.

use core::cell::UnsafeCell;
use core::future::Future;
use core::marker::PhantomPinned;
use core::pin::Pin;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::task::{Context, Poll, Waker};

use sheaves_sys::fork::{self, Handlers};
use sheaves_sys::lock::{Held, Lock};
use sheaves_sys::{futex, thread};

use super::cookie::Cookie;
use super::expedite::Urgency;
use super::period::{self, GENERATIONS};

struct Node {
    links: Links,
    /// The number of the grace period.
    number: u64,
    waker: Option<Waker>,
}

#[derive(Clone, Copy)]
struct Links {
    next: *mut Node,
    previous: *mut Node,
    /// The number of the list that the node is on, 0 for none.
    list: u64,
}

impl Links {
    const NONE: Links = Links { next: null_mut(), previous: null_mut(), list: 0 };
}

/// The futures that wait, in no particular order.
struct List {
    first: *mut Node,
    /// Equal to [`PROCESS`]; otherwise the list is a parent's, and its nodes are not accessed.
    number: u64,
}

// SAFETY: the nodes are used under the lock only, and wakers may be sent.
unsafe impl Send for List {}

static LIST: Lock<List> = Lock::new(List { first: null_mut(), number: 1 });
/// The number of this process's list. Written in the child of a fork.
static PROCESS: AtomicU64 = AtomicU64::new(1);
/// Changes whenever a future is added: the waker thread sleeps on it. Written under the lock.
static ADDED: AtomicU32 = AtomicU32::new(0);
/// 1 while there is a waker thread. Written by its creator, and in the child of a fork.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// A future that is ready after a grace period. See [`Cookie::finished`].
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

impl Cookie {
    /// A future that is ready when the cookie has passed. Requests its grace period.
    ///
    /// The first future that has to wait starts a thread, for which libc allocates. In the child of
    /// a fork the forking thread may poll and drop its futures; no thread wakes one that waited
    /// before the fork.
    ///
    /// ```
    /// # async fn replace() {
    /// let cookie = sheaves_rcu::Cookie::get();
    /// cookie.finished().await;
    /// # }
    /// ```
    pub fn finished(self) -> Finished {
        self.request(Urgency::Normal);
        let node = Node { links: Links::NONE, number: self.to_bits(), waker: None };
        Finished { cookie: self, node: UnsafeCell::new(node), _pinned: PhantomPinned }
    }
}

impl Finished {
    /// Has the waker called after the grace period. False if no thread will do that.
    fn enlist(&self, waker: Waker) -> bool {
        let node = self.node.get();
        let mut list = list();
        // SAFETY: the node is pinned until it is dropped, which takes it off the list.
        unsafe { list.link(node) };
        // SAFETY: the node is used under the lock, which is held.
        let before = unsafe { (*node).waker.replace(waker) };
        drop(list);
        drop(before);
        // Relaxed: the lock orders; the value only says that there is a new future.
        ADDED.fetch_add(1, Ordering::Relaxed);
        futex::wake_all(&ADDED);
        // Relaxed: a thread that failed to start the waker thread stores 0, then empties the list.
        // If it did so before this future was added, the lock makes the 0 visible.
        RUNNING.load(Ordering::Relaxed) != 0
    }
}

impl Future for Finished {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.cookie.poll() {
            return Poll::Ready(());
        }
        if !(is_running() && self.enlist(context.waker().clone())) {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl Drop for Finished {
    fn drop(&mut self) {
        let node = self.node.get();
        let mut list = list();
        // SAFETY: the node is valid until this returns.
        unsafe { list.unlink(node) };
        // SAFETY: the node is used under the lock, which is held.
        let waker = unsafe { (*node).waker.take() };
        drop(list);
        drop(waker);
    }
}

fn list() -> Held<'static, List> {
    let mut list = LIST.lock();
    // Relaxed: it changes while there is one thread.
    let process = PROCESS.load(Ordering::Relaxed);
    if list.number != process {
        (list.first, list.number) = (null_mut(), process);
    }
    list
}

impl List {
    /// Adds a node, unless it is on the list.
    ///
    /// # Safety
    /// The node stays at its address until it is taken off the list.
    unsafe fn link(&mut self, node: *mut Node) {
        let (next, list) = (self.first, self.number);
        // SAFETY: valid by the contract, and used under the lock only.
        if unsafe { (*node).links.list } == list {
            return;
        }
        // SAFETY: as above.
        unsafe { (*node).links = Links { next, previous: null_mut(), list } };
        if !next.is_null() {
            // SAFETY: a node on the list.
            unsafe { (*next).links.previous = node };
        }
        self.first = node;
    }

    /// Takes a node off the list, if it is on it.
    ///
    /// # Safety
    /// The node is valid.
    unsafe fn unlink(&mut self, node: *mut Node) {
        // SAFETY: valid by the contract, and used under the lock only.
        let Links { next, previous, list } = unsafe { (*node).links };
        if list != self.number {
            return;
        }
        // SAFETY: as above.
        unsafe { (*node).links = Links::NONE };
        if previous.is_null() {
            self.first = next;
        } else {
            // SAFETY: a node on the list.
            unsafe { (*previous).links.next = next };
        }
        if !next.is_null() {
            // SAFETY: a node on the list.
            unsafe { (*next).links.previous = previous };
        }
    }

    /// Each node, with its number. The node may be taken off meanwhile.
    fn each(&self) -> impl Iterator<Item = (*mut Node, u64)> + use<> {
        // SAFETY: a node on the list, which is used under the lock only.
        let next = |node: &NonNull<Node>| NonNull::new(unsafe { (*node.as_ptr()).links.next });
        let nodes = core::iter::successors(NonNull::new(self.first), next).map(NonNull::as_ptr);
        // SAFETY: as above.
        nodes.map(|node| (node, unsafe { (*node).number }))
    }

    /// Takes a node off the list whose number satisfies `is_so`. Returns its waker.
    fn take(&mut self, is_so: impl Fn(u64) -> bool) -> Option<Waker> {
        for (node, _) in self.each().filter(|(_, number)| is_so(*number)) {
            // SAFETY: a node on the list.
            unsafe { self.unlink(node) };
            // SAFETY: as above; it is used under the lock, which is held.
            if let Some(waker) = unsafe { (*node).waker.take() } {
                return Some(waker);
            }
        }
        None
    }
}

/// True if the waker thread exists; starts it if it does not.
fn is_running() -> bool {
    fork::run_pending_handlers();
    // Relaxed, all: a flag; the list, which the thread reads, is under the lock.
    if RUNNING.load(Ordering::Relaxed) != 0 || RUNNING.swap(1, Ordering::Relaxed) != 0 {
        return true;
    }
    let started = thread::spawn(run);
    if !started {
        RUNNING.store(0, Ordering::Relaxed);
        // A future that was added meanwhile is on the list: it has to lead itself from here on.
        wake(|_| true);
    }
    started
}

/// Wakes every future whose number satisfies `is_so`.
fn wake(is_so: impl Fn(u64) -> bool) {
    loop {
        // The lock is released before the waker runs.
        let waker = list().take(&is_so);
        let Some(waker) = waker else { break };
        waker.wake();
    }
}

fn run() -> ! {
    loop {
        // Relaxed: read before the list; a later addition changes it.
        let added = ADDED.load(Ordering::Relaxed);
        let completed = GENERATIONS.completed();
        let lowest = list().each().map(|(_, number)| number).min();
        let Some(number) = lowest else {
            futex::wait(&ADDED, added);
            continue;
        };
        // One grace period at a time: a future of an earlier one may be added meanwhile.
        period::wait_for(number.min(completed + 1), Urgency::Normal);
        wake(|number| GENERATIONS.is_complete(number));
    }
}

static HANDLERS: Handlers = Handlers { prepare, parent: release, child, recover: prepare };
sheaves_sys::announce_when_loaded!(Futures, &HANDLERS);

fn prepare() {
    LIST.acquire();
}

fn release() {
    // SAFETY: taken by `prepare` in the thread that forked, without a guard.
    unsafe { LIST.release() };
}

/// In the child of a fork there is no waker thread, and the list is a new one.
fn child() {
    // Relaxed, both: the child has one thread.
    RUNNING.store(0, Ordering::Relaxed);
    PROCESS.fetch_add(1, Ordering::Relaxed);
    release();
}
