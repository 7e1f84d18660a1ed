//! What callbacks defer in turn: it follows at once, and does not wait for the age bound.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use sheaves_rcu::defer::{Channel, Head, barrier, call_rcu, reclaim, statistics as deferred};
use sheaves_rcu::internal::faults::FAULTS;
use sheaves_rcu::internal::spend_on_following;
use sheaves_rcu::{Cookie, Srcu, read};

use crate::{Object, Reader, alone, children, happens_within, is_own, pass_own, wait_until};

/// With the age bound for each node, 20 ms, this many would take 400 s.
const NODES: usize = 20_000;
/// Where callbacks run in workers, each node wakes a thread.
const NODES_OF_WORKERS: usize = 500;
/// Far more than they take, on any machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Nodes that were called.
static DONE: AtomicUsize = AtomicUsize::new(0);

fn nodes() -> usize {
    let has_workers = std::env::var("SHEAVES_RCU_RECLAIMERS").is_ok_and(|is| is == "slots");
    if has_workers { NODES_OF_WORKERS } else { NODES }
}

/// A node of a list, or of a binary tree.
#[repr(C)]
struct Node {
    head: Head,
    next: [AtomicPtr<Node>; 2],
}

impl Node {
    fn new(next: [*mut Node; 2]) -> *mut Node {
        Box::into_raw(Box::new(Node { head: Head::new(), next: next.map(AtomicPtr::new) }))
    }

    fn list(nodes: usize) -> *mut Node {
        (0..nodes).fold(null_mut(), |next, _| Node::new([next, null_mut()]))
    }

    fn tree(nodes: usize) -> *mut Node {
        match nodes.checked_sub(1) {
            None => null_mut(),
            Some(rest) => Node::new([Node::tree(rest / 2), Node::tree(rest - rest / 2)]),
        }
    }

    /// Defers the node, if it is not null. Its callback frees it, and defers those after it.
    fn defer(node: *mut Node) {
        if !node.is_null() {
            // SAFETY: a box with an idle head, which is used in no other way from here on.
            unsafe { call_rcu(node.cast(), end) };
        }
    }
}

unsafe extern "C" fn end(head: *mut Head) {
    // SAFETY: from `defer`: the head is first in a box.
    let node = unsafe { Box::from_raw(head.cast::<Node>()) };
    // Relaxed: a grace period has passed.
    node.next.iter().for_each(|next| Node::defer(next.load(Ordering::Relaxed)));
    DONE.fetch_add(1, Ordering::SeqCst);
}

fn defer_and_wait(root: *mut Node, nodes: usize, mut step: impl FnMut()) {
    let (before, begin) = (DONE.load(Ordering::SeqCst), Instant::now());
    Node::defer(root);
    let is_done = || DONE.load(Ordering::SeqCst) == before + nodes;
    while !is_done() {
        assert!(begin.elapsed() < LIMIT, "{} of {nodes}", DONE.load(Ordering::SeqCst) - before);
        step();
    }
    println!("{nodes} nodes in {:?}", begin.elapsed());
}

fn sleep() {
    thread::sleep(Duration::from_millis(1));
}

#[test]
fn a_list_is_freed_at_once() {
    let _alone = alone();
    defer_and_wait(Node::list(nodes()), nodes(), sleep);
}

#[test]
fn a_tree_is_freed_at_once() {
    let _alone = alone();
    defer_and_wait(Node::tree(nodes()), nodes(), sleep);
}

#[test]
fn a_list_is_freed_by_barriers() {
    let _alone = alone();
    defer_and_wait(Node::list(nodes()), nodes(), || barrier().unwrap());
}

/// The memory for sheaves is out: heads are linked.
#[test]
fn a_list_is_freed_without_memory() {
    let _alone = alone();
    let list = Node::list(nodes() / 50);
    FAULTS.fail_one_in(1);
    Node::defer(list);
    let is_done = happens_within(LIMIT, || deferred().pending().objects == 0);
    FAULTS.fail_one_in(0);
    assert!(is_done);
}

#[test]
fn a_program_without_a_reclaimer_drives_a_list() {
    let _alone = alone();
    if !is_own() {
        let options = [("SHEAVES_RCU_RECLAIMERS", "0"), ("SHEAVES_RCU_AGE_MS", "1")];
        pass_own("chains::a_program_without_a_reclaimer_drives_a_list", &options);
        return;
    }
    let poll = || {
        reclaim();
    };
    defer_and_wait(Node::list(nodes()), nodes(), poll);
    defer_and_wait(Node::tree(nodes()), nodes(), poll);
    defer_and_wait(Node::list(nodes()), nodes(), || barrier().unwrap());
}

#[test]
fn a_child_frees_a_list() {
    let _alone = alone();
    let reader = Reader::start();
    let list = Node::list(nodes() / 10);
    let is_done = children::in_child(LIMIT, || {
        // The parent's reader is not here.
        defer_and_wait(list, nodes() / 10, sleep);
        defer_and_wait(Node::list(nodes() / 10), nodes() / 10, || barrier().unwrap());
        true
    });
    assert!(is_done);
    drop(reader);
    // In the parent it is still whole.
    defer_and_wait(list, nodes() / 10, sleep);
}

/// Forks while callbacks defer callbacks: the child goes on, but for the one that runs meanwhile.
#[test]
fn forks_beside_lists() {
    let _alone = alone();
    for _ in 0..20 {
        let before = DONE.load(Ordering::SeqCst);
        Node::defer(Node::list(nodes() / 10));
        assert!(children::in_child(LIMIT, || barrier().is_ok()));
        wait_until("the end", || DONE.load(Ordering::SeqCst) == before + nodes() / 10);
    }
}

/// No node is freed while a reader may use it, although each follows the one before at once.
#[test]
fn readers_hold_up_each_node() {
    static FIRST: AtomicPtr<Node> = AtomicPtr::new(null_mut());
    static CALLED: AtomicUsize = AtomicUsize::new(0);
    const ALIVE: usize = 0;
    const DEAD: usize = 1;
    /// Marks a node, which stays mapped. Then unlinks the one that readers find, and defers it.
    unsafe extern "C" fn bury(head: *mut Head) {
        // SAFETY: from the test: the head is first in a node that is never freed.
        let node = unsafe { &*head.cast::<Node>() };
        node.next[1].store(core::ptr::without_provenance_mut(DEAD), Ordering::SeqCst);
        let next = node.next[0].load(Ordering::Relaxed);
        // SAFETY: null, or never freed.
        if let Some(second) = unsafe { next.as_ref() } {
            assert_eq!(FIRST.swap(second.next[0].load(Ordering::Relaxed), Ordering::SeqCst), next);
            // SAFETY: never freed, and deferred once.
            unsafe { call_rcu(next.cast(), bury) };
        }
        CALLED.fetch_add(1, Ordering::SeqCst);
    }
    let _alone = alone();
    let nodes = nodes() / 10;
    let list = Node::list(nodes);
    // SAFETY: never freed.
    FIRST.store(unsafe { &*list }.next[0].load(Ordering::Relaxed), Ordering::SeqCst);
    let (stop, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _guard = read();
                    let first = FIRST.load(Ordering::SeqCst);
                    // SAFETY: null, or never freed.
                    let Some(node) = (unsafe { first.as_ref() }) else { continue };
                    let state = || node.next[1].load(Ordering::SeqCst).addr();
                    assert!((0..10).all(|_| state() == ALIVE));
                    let is_unlinked = FIRST.load(Ordering::SeqCst) != first;
                    seen.fetch_add(is_unlinked.into(), Ordering::Relaxed);
                }
            });
        }
        // SAFETY: never freed, and deferred once.
        unsafe { call_rcu(list.cast(), bury) };
        wait_until("the end", || CALLED.load(Ordering::SeqCst) == nodes);
        stop.store(true, Ordering::Relaxed);
    });
    println!("{} sections saw how their node was unlinked", seen.into_inner());
}

/// A barrier waits for what was deferred before it, not for all that follows from it.
#[test]
fn a_barrier_does_not_wait_for_what_follows() {
    static STOP: AtomicBool = AtomicBool::new(false);
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    fn defer_next() {
        sheaves_rcu::defer(|| {
            CALLS.fetch_add(1, Ordering::SeqCst);
            if !STOP.load(Ordering::SeqCst) {
                defer_next();
            }
        });
    }
    let _alone = alone();
    STOP.store(false, Ordering::SeqCst);
    defer_next();
    for object in Object::many(20) {
        let before = CALLS.load(Ordering::SeqCst);
        object.defer();
        let begin = Instant::now();
        barrier().unwrap();
        assert_eq!(object.calls(), 1);
        assert!(begin.elapsed() < LIMIT);
        wait_until("another call", || CALLS.load(Ordering::SeqCst) > before);
    }
    // Neither do futures, nor what other threads defer, nor grace periods.
    let object = &Object::many(1)[0];
    object.defer();
    wait_until("a call by age", || object.calls() == 1);
    let cookie = Cookie::start_poll();
    wait_until("a grace period", || cookie.poll());
    STOP.store(true, Ordering::SeqCst);
    barrier().unwrap();
}

/// What mutators defer still waits for the age bound.
#[test]
fn mutators_wait_for_the_age_bound() {
    let _alone = alone();
    if !is_own() {
        let options = [("SHEAVES_RCU_AGE_MS", "3000")];
        pass_own("chains::mutators_wait_for_the_age_bound", &options);
        return;
    }
    let object = &Object::many(1)[0];
    // Another batch may be on its way.
    barrier().unwrap();
    object.defer();
    assert!(!happens_within(Duration::from_millis(1000), || object.calls() == 1));
    wait_until("a call by age", || object.calls() == 1);
}

/// A function of a channel that defers through the channel, and calls.
#[test]
fn objects_of_channels_follow_each_other() {
    static CHANNEL: Channel = Channel::new("chain", free_link);
    static LEFT: AtomicUsize = AtomicUsize::new(0);
    static HEADS: Mutex<Vec<&'static Object>> = Mutex::new(Vec::new());
    unsafe fn free_link(pointer: *mut u8) {
        // SAFETY: from a box, below.
        drop(unsafe { Box::from_raw(pointer.cast::<u64>()) });
        let left = LEFT.load(Ordering::SeqCst);
        if left.is_multiple_of(2) {
            HEADS.lock().unwrap().pop().unwrap().defer_to(call_link);
        } else {
            free_next();
        }
    }
    unsafe extern "C" fn call_link(_: *mut Head) {
        free_next();
    }
    fn free_next() {
        if LEFT.fetch_sub(1, Ordering::SeqCst) > 1 {
            let pointer = Box::into_raw(Box::new(7_u64)).cast();
            // SAFETY: the box is used in no other way.
            unsafe { CHANNEL.free_later(pointer, 8) };
        }
    }
    let _alone = alone();
    let links = nodes() / 50;
    HEADS.lock().unwrap().extend(Object::many(links));
    LEFT.store(links, Ordering::SeqCst);
    free_next();
    assert!(happens_within(LIMIT / 3, || LEFT.load(Ordering::SeqCst) == 0));
}

/// Callbacks of a domain defer to it in turn, and so do those that wait for all readers.
#[test]
fn callbacks_of_a_domain_follow_each_other() {
    static LEFT: AtomicUsize = AtomicUsize::new(0);
    fn call_next(domain: &'static Srcu) {
        let left = LEFT.fetch_sub(1, Ordering::SeqCst) - 1;
        match left {
            0 => {}
            _ if left.is_multiple_of(2) => domain.defer(move || call_next(domain)),
            _ => sheaves_rcu::defer(move || call_next(domain)),
        }
    }
    let _alone = alone();
    let domain: &'static Srcu = Box::leak(Box::new(Srcu::new().unwrap()));
    LEFT.store(NODES / 4, Ordering::SeqCst);
    call_next(domain);
    assert!(happens_within(LIMIT / 3, || LEFT.load(Ordering::SeqCst) == 0));
}

/// Callbacks that defer others for ever do not keep a CPU busy for ever: here two by turns, once
/// the time for that is spent.
#[test]
fn what_repeats_for_ever_waits_for_the_age_bound() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static OTHER: AtomicPtr<Head> = AtomicPtr::new(core::ptr::null_mut());
    unsafe extern "C" fn again(head: *mut Head) {
        CALLS.fetch_add(1, Ordering::SeqCst);
        let other = OTHER.swap(head, Ordering::SeqCst);
        // SAFETY: never freed, and idle since it was called.
        unsafe { call_rcu(other, again) };
    }
    const HOUR_NS: u64 = 3_600_000_000_000;
    let _alone = alone();
    let heads = Object::many(2);
    OTHER.store((&raw const heads[1].head).cast_mut(), Ordering::SeqCst);
    // In a child: other lists would have to wait after that.
    assert!(children::in_child(LIMIT, || {
        spend_on_following(HOUR_NS);
        heads[0].defer_to(again);
        let has_begun = happens_within(LIMIT / 2, || CALLS.load(Ordering::SeqCst) > 2);
        thread::sleep(Duration::from_millis(500));
        let calls = CALLS.load(Ordering::SeqCst);
        println!("{calls} calls in 500 ms");
        has_begun && calls < 500
    }));
}
