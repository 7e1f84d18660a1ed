//! The list of futures that wait for grace periods, see `finished`. The library's thread wakes
//! them.
//!
//! In the child of a fork the list is empty: its nodes were on stacks of threads that are gone. A
//! future of the thread that forked may be polled and dropped there; nothing wakes it before.
//!
//! # Invariants
//! A node is on the list exactly while it carries the list's number. Its future is pinned all that
//! time, and unlinks the node when it is dropped. Nodes are accessed under the lock only, through
//! raw pointers: there is never a reference to a whole node.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use core::task::Waker;

use sheaves_sys::fork::Handlers;
use sheaves_sys::lock::{Held, Lock};

use crate::grace::expedite::Urgency;
use crate::grace::period::{self, GENERATIONS};

/// A future on the list, or about to be.
pub(crate) struct Node {
    links: Links,
    /// The number of the grace period.
    number: u64,
    waker: Option<Waker>,
}

impl Node {
    /// A node that is not on the list.
    pub(crate) const fn of(number: u64) -> Node {
        Node { links: Links::NONE, number, waker: None }
    }
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
/// Number of futures on the list. Written under the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Puts a node on the list, with a waker that is called after the grace period.
///
/// # Safety
/// The node is valid and stays at its address until [`take_off`], and is used here only.
pub(crate) unsafe fn put_on(node: *mut Node, waker: Waker) {
    let mut list = list();
    // SAFETY: the same contract.
    unsafe { list.link(node) };
    // SAFETY: the node is used under the lock, which is held.
    let before = unsafe { (*node).waker.replace(waker) };
    drop(list);
    drop(before);
}

/// Takes a node off the list, if it is on it.
///
/// # Safety
/// The node is valid, and used here only.
pub(crate) unsafe fn take_off(node: *mut Node) {
    let mut list = list();
    // SAFETY: the same contract.
    unsafe { list.unlink(node) };
    // SAFETY: the node is used under the lock, which is held.
    let waker = unsafe { (*node).waker.take() };
    drop(list);
    drop(waker);
}

fn list() -> Held<'static, List> {
    let mut list = LIST.lock();
    // Relaxed: it changes while there is one thread.
    let process = PROCESS.load(Ordering::Relaxed);
    if list.number != process {
        (list.first, list.number) = (null_mut(), process);
        // Relaxed: changes under the lock.
        COUNT.store(0, Ordering::Relaxed);
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
        // SeqCst: before the look whether the library's thread runs, see `reclaimer`. [B4]
        COUNT.fetch_add(1, Ordering::SeqCst);
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
        // Relaxed: changes under the lock.
        COUNT.fetch_sub(1, Ordering::Relaxed);
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

/// Wakes every future whose number satisfies `is_so`.
fn wake(is_so: impl Fn(u64) -> bool) {
    loop {
        // The lock is released before the waker runs.
        let waker = list().take(&is_so);
        let Some(waker) = waker else { break };
        waker.wake();
    }
}

/// The lowest number that a future waits for. For the library's thread.
pub(crate) fn lowest() -> Option<u64> {
    // SeqCst: after the library's thread has stored that it ends, see `reclaimer`. [B4]
    if COUNT.load(Ordering::SeqCst) == 0 {
        return None;
    }
    list().each().map(|(_, number)| number).min()
}

/// Waits for the next grace period that a future waits for, and wakes the futures that are ready.
/// True if there were any.
pub(crate) fn serve() -> bool {
    let Some(number) = lowest() else { return false };
    // One grace period at a time: a future of an earlier one may be added meanwhile.
    period::wait_for(number.min(GENERATIONS.completed() + 1), Urgency::Normal);
    wake(|number| GENERATIONS.is_complete(number));
    true
}

static HANDLERS: Handlers = Handlers { prepare, parent: release, child };
sheaves_sys::announce_when_loaded!(Futures, &HANDLERS);

fn prepare() {
    LIST.acquire();
}

fn release() {
    // SAFETY: taken by `prepare` in the thread that forked, without a guard.
    unsafe { LIST.release() };
}

/// In the child of a fork the list is a new one.
fn child() {
    // Relaxed: the child has one thread.
    PROCESS.fetch_add(1, Ordering::Relaxed);
    release();
}
