//! A published object. Another thread replaces it, and frees the old one when it believes that no
//! reader uses it.
//!
//! The interrupted thread and its handler find the object in their sections. The handler then has
//! the other thread replace it and free what it may, and checks the object that it uses.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::collections::VecDeque;

use sheaves_sys::futex;

/// Limit on objects in one survey: one for each place.
pub(crate) const OBJECTS: usize = 1 << 15;

/// Number of the published object.
static CURRENT: AtomicUsize = AtomicUsize::new(0);
static FREED: [AtomicBool; OBJECTS] = [const { AtomicBool::new(false) }; OBJECTS];

/// How often the updater was asked to replace the object, and how often it has. [`STOP`] ends it.
static ASKED: AtomicU32 = AtomicU32::new(0);
static DONE: AtomicU32 = AtomicU32::new(0);
const STOP: u32 = u32::MAX;
/// A sleeper rechecks after this time.
const SLEEP_NS: u64 = 10_000_000;

/// How often a handler, or the thread itself, used a freed object.
static WRONG: AtomicUsize = AtomicUsize::new(0);

/// How the updater learns that a grace period has passed.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    /// Called after the object was unlinked; returns a cookie.
    pub(crate) ask: fn() -> u64,
    /// True if the grace period of the cookie has passed.
    pub(crate) poll: fn(u64) -> bool,
}

/// The published object. Inside a section.
#[inline(always)]
pub(crate) fn find() -> usize {
    CURRENT.load(Ordering::Acquire)
}

/// Later in the same section: checks that the object is not freed.
#[inline(always)]
pub(crate) fn check(object: usize) {
    if FREED[object].load(Ordering::Acquire) {
        WRONG.fetch_add(1, Ordering::Relaxed);
    }
}

/// Inside a section: has the updater replace the object and free what it may, and waits for it.
pub(crate) fn replace() {
    let asked = ASKED.fetch_add(1, Ordering::AcqRel) + 1;
    futex::wake_all(&ASKED);
    loop {
        let done = DONE.load(Ordering::Acquire);
        if done == asked {
            return;
        }
        futex::wait_for(&DONE, done, SLEEP_NS);
    }
}

/// Runs `body`, in which threads are interrupted, beside an updater. Returns how often a freed
/// object was in use.
pub(crate) fn beside_updater(waiting: Waiting, body: impl FnOnce()) -> usize {
    CURRENT.store(0, Ordering::Relaxed);
    FREED.iter().for_each(|freed| freed.store(false, Ordering::Relaxed));
    for counter in [&ASKED, &DONE] {
        counter.store(0, Ordering::Relaxed);
    }
    WRONG.store(0, Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| update(waiting));
        body();
        ASKED.store(STOP, Ordering::Release);
        futex::wake_all(&ASKED);
    });
    WRONG.load(Ordering::Relaxed)
}

/// Replaces the object as often as requested.
fn update(waiting: Waiting) {
    let mut unlinked: VecDeque<(usize, u64)> = VecDeque::new();
    loop {
        let done = DONE.load(Ordering::Relaxed);
        match ASKED.load(Ordering::Acquire) {
            STOP => return,
            asked if asked == done => futex::wait_for(&ASKED, asked, SLEEP_NS),
            _ => {
                let old = CURRENT.load(Ordering::Relaxed);
                CURRENT.store(old + 1, Ordering::Release);
                unlinked.push_back((old, (waiting.ask)()));
                // The last cookie first: polling it advances those before it as well.
                let newest = unlinked.back().map_or(0, |(_, cookie)| *cookie);
                let _ = (0..3).any(|_| (waiting.poll)(newest));
                while unlinked.front().is_some_and(|(_, cookie)| (waiting.poll)(*cookie)) {
                    let freed = unlinked.pop_front().map(|(object, _)| &FREED[object]);
                    freed.into_iter().for_each(|freed| freed.store(true, Ordering::Release));
                }
                DONE.store(done + 1, Ordering::Release);
                futex::wake_all(&DONE);
            }
        }
    }
}
