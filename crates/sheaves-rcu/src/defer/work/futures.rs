//! The list of futures that wait for grace periods, see `finished`. The library's thread wakes
//! them; when it ends, it wakes those that are left, and they lead themselves.
//!
//! In the child of a fork the list is empty: its nodes were on stacks of threads that are gone. A
//! future of the forking thread may be polled and dropped there; nothing wakes it before.
//!
//! # Invariants
//! A node is on the list exactly while it carries the list's number. Its future is pinned all that
//! time, and takes the node off when it is dropped. Nodes are accessed under the lock only.

use core::mem::replace;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Waker;

use sheaves_sys::fork::{self, Handlers};
use sheaves_sys::lock::{Held, Lock};

use crate::grace::expedite::Urgency;
use crate::grace::period::{self, GENERATIONS};

/// A future on the list, or about to be.
pub(crate) struct Node {
    number: u64,
    waker: Option<Waker>,
    next: *mut Node,
    previous: *mut Node,
    /// The generation of the list that the node is on.
    list: Option<usize>,
}

impl Node {
    /// A node that is not on the list.
    pub(crate) const fn of(number: u64) -> Node {
        Node { number, waker: None, next: null_mut(), previous: null_mut(), list: None }
    }
}

/// Grace periods that futures wait for at the same time: the current one and the next, and one that
/// has just ended. Those of one number have a queue, so that each step looks at the heads only.
const QUEUES: usize = 4;

struct List {
    queues: [Queue; QUEUES],
    /// The process's [`fork::generation`]; otherwise the list is a parent's, and its nodes are not
    /// accessed.
    generation: usize,
}

/// Futures whose numbers have the same lowest bits, in the order in which they came. One that comes
/// when its grace period is over may be behind one of a later number: it is woken with that one.
#[derive(Clone, Copy)]
struct Queue {
    first: *mut Node,
    last: *mut Node,
}

impl Queue {
    const EMPTY: Queue = Queue { first: null_mut(), last: null_mut() };

    /// The number of the first future.
    fn number(&self) -> Option<u64> {
        // SAFETY: null, or on the list, and used under the lock only.
        unsafe { self.first.as_ref() }.map(|node| node.number)
    }
}

// SAFETY: the nodes are used under the lock only, and wakers may be sent.
unsafe impl Send for List {}

static LIST: Lock<List> = Lock::new(List { queues: [Queue::EMPTY; QUEUES], generation: 0 });
/// Number of futures on the list. Written under the lock.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Puts a node on the list, with a waker that is called after the grace period; or takes it off.
///
/// # Safety
/// The node is valid and used here only, and stays at its address until it is taken off.
pub(crate) unsafe fn enlist(node: *mut Node, waker: Option<Waker>) {
    let mut list = list();
    match waker {
        // SAFETY: the same contract.
        Some(_) => unsafe { list.link(node) },
        // SAFETY: the same contract.
        None => unsafe { list.unlink(node) },
    }
    // SAFETY: the node is used under the lock, which is held.
    let before = replace(unsafe { &mut (*node).waker }, waker);
    // A waker is dropped without the lock.
    drop(list);
    drop(before);
}

fn list() -> Held<'static, List> {
    let mut list = LIST.lock();
    if list.generation != fork::generation() {
        (list.queues, list.generation) = ([Queue::EMPTY; QUEUES], fork::generation());
        // Relaxed: changes under the lock.
        COUNT.store(0, Ordering::Relaxed);
    }
    list
}

impl List {
    fn queue(&mut self, number: u64) -> &mut Queue {
        &mut self.queues[number as usize % QUEUES]
    }

    /// Adds a node, unless it is on the list.
    ///
    /// # Safety
    /// As for [`enlist`].
    unsafe fn link(&mut self, node: *mut Node) {
        // SAFETY: valid by the contract, and used under the lock only.
        let new = unsafe { &mut *node };
        if new.list == Some(self.generation) {
            return;
        }
        new.list = Some(self.generation);
        let queue = self.queue(new.number);
        (new.next, new.previous) = (null_mut(), queue.last);
        // SAFETY: null, or on the list, and so another node.
        match unsafe { queue.last.as_mut() } {
            Some(last) => last.next = node,
            None => queue.first = node,
        }
        queue.last = node;
        // SeqCst: before the check whether the library's thread runs, see `reclaimer`. [B4]
        COUNT.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes a node off the list, if it is on it.
    ///
    /// # Safety
    /// The node is valid.
    unsafe fn unlink(&mut self, node: *mut Node) {
        // SAFETY: valid by the contract, and used under the lock only.
        let node = unsafe { &mut *node };
        if node.list != Some(self.generation) {
            return;
        }
        node.list = None;
        // Relaxed: changes under the lock.
        COUNT.fetch_sub(1, Ordering::Relaxed);
        let queue = self.queue(node.number);
        // SAFETY: null, or on the list, and so another node.
        match unsafe { node.previous.as_mut() } {
            Some(previous) => previous.next = node.next,
            None => queue.first = node.next,
        }
        // SAFETY: as above.
        match unsafe { node.next.as_mut() } {
            Some(next) => next.previous = node.previous,
            None => queue.last = node.previous,
        }
    }

    /// Takes a node off the list whose grace period is over. Returns its waker.
    fn take_ready(&mut self) -> Option<Waker> {
        let is_over = |number| GENERATIONS.is_complete(number);
        let queue = self.queues.iter().position(|queue| queue.number().is_some_and(is_over))?;
        self.take_first(queue)
    }

    /// Takes the first node of a queue off the list. Returns its waker.
    fn take_first(&mut self, queue: usize) -> Option<Waker> {
        let first = self.queues[queue].first;
        // SAFETY: null, or on the list, and used under the lock only.
        let waker = unsafe { first.as_mut() }?.waker.take();
        // SAFETY: on the list.
        unsafe { self.unlink(first) };
        waker
    }
}

/// The lowest number that a future waits for. For the library's thread.
pub(crate) fn lowest() -> Option<u64> {
    // SeqCst: after the library's thread has stored that it ends, see `reclaimer`. [B4]
    if COUNT.load(Ordering::SeqCst) == 0 {
        return None;
    }
    list().queues.iter().filter_map(Queue::number).min()
}

/// Waits for the next grace period that a future waits for. True if one waits.
pub(crate) fn wait() -> bool {
    let number = lowest();
    if let Some(number) = number {
        // One grace period at a time: a future of the one before may be added meanwhile.
        period::wait_for(number.min(GENERATIONS.completed() + 1), Urgency::Normal);
    }
    number.is_some()
}

pub(crate) fn wake_ready() {
    // Relaxed: a hint. What is added meanwhile has a request, see `reclaimer`.
    if COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    // The lock is released before the waker runs.
    let take = || list().take_ready();
    while let Some(waker) = take() {
        waker.wake();
    }
}

/// Wakes all futures that wait now, though their grace periods may not be over. For the library's
/// thread, after it has stored that it ends.
pub(crate) fn wake_all() {
    // SeqCst: as in `lowest`. [B4]
    let count = COUNT.load(Ordering::SeqCst);
    for queue in 0..QUEUES {
        // Each at most once: one that is polled again comes to the end of its queue.
        (0..count).map_while(|_| list().take_first(queue)).for_each(Waker::wake);
    }
}

static HANDLERS: Handlers = Handlers { prepare, parent: release, child: release };
sheaves_sys::announce_when_loaded!(Futures, &HANDLERS);
sheaves_sys::fork_locks!(LIST);
