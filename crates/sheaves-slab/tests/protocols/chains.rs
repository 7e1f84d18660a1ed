//! The lock of a chain, as hash maps have it (`sheaves::map`, `tables/lock.rs`), whose crate does
//! not build for the model checker. The release of a brief lock wakes no thread: one that sleeps
//! looks again after a while. Any other lock is released by an exchange that tells of sleepers, and
//! they are woken.
//!
//! What must hold: one thread at a time changes a chain, and sees all changes before. No change is
//! lost. Each thread gets the lock or, once the chain has moved, finds what it has moved to.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

const LOCKED: u64 = 1 << 48;
const WAITERS: u64 = 1 << 49;
const MOVED: u64 = 1 << 50;
const TAGS: u64 = LOCKED - 1;

/// How a variant breaks the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The lock is taken by a store.
    TakesByStore,
    /// The thread that takes the lock may not see the changes before.
    TakesRelaxed,
    /// The changes are published too late.
    ReleasesRelaxed,
    /// A thread sleeps for a brief lock until it is woken.
    SleepsUntilWoken,
    /// A thread that sleeps for another lock leaves no flag.
    SleepsUnnoticed,
    /// Another lock is released as a brief one.
    WakesNobody,
}

struct Chain {
    fault: Fault,
    is_brief: bool,
    word: AtomicU64,
    /// What the lock protects.
    count: UnsafeCell<u64>,
    /// What it has moved to, before it is marked.
    target: UnsafeCell<u64>,
    /// The kernel's: the threads that sleep for the word.
    sleepers: Mutex<()>,
    wake: Condvar,
}

// SAFETY: the models check that one thread at a time uses the cells.
unsafe impl Sync for Chain {}
// SAFETY: as above.
unsafe impl Send for Chain {}

impl Chain {
    fn new(fault: Fault, is_brief: bool) -> Chain {
        let [count, target] = [0, 0].map(UnsafeCell::new);
        let (word, sleepers, wake) = (AtomicU64::new(0), Mutex::new(()), Condvar::new());
        Chain { fault, is_brief, word, count, target, sleepers, wake }
    }

    fn or_relaxed(&self, order: Ordering, fault: Fault) -> Ordering {
        if self.fault == fault { Ordering::Relaxed } else { order }
    }

    /// The tags, or `None` if the chain has moved.
    fn lock(&self) -> Option<u64> {
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if word & MOVED != 0 {
                return None;
            }
            if word & LOCKED != 0 {
                self.sleep(word);
            } else if self.exchange(word, word & WAITERS) {
                return Some(word & TAGS);
            }
        }
    }

    fn exchange(&self, word: u64, kept: u64) -> bool {
        let new = word & TAGS | kept | LOCKED;
        if self.fault == Fault::TakesByStore {
            self.word.store(new, Ordering::Release);
            return true;
        }
        let acquire = self.or_relaxed(Ordering::Acquire, Fault::TakesRelaxed);
        self.word.compare_exchange(word, new, acquire, Ordering::Relaxed).is_ok()
    }

    fn sleep(&self, word: u64) {
        let is_noticed = !self.is_brief && self.fault != Fault::SleepsUnnoticed;
        let waiting = if is_noticed { word | WAITERS } else { word };
        let relaxed = Ordering::Relaxed;
        if word != waiting && self.word.compare_exchange(word, waiting, relaxed, relaxed).is_err() {
            return;
        }
        if self.is_brief && self.fault != Fault::SleepsUntilWoken {
            // For a while.
            return thread::yield_now();
        }
        // The kernel compares the word, and then sleeps, in one step.
        let sleepers = self.sleepers.lock().unwrap();
        if self.word.load(relaxed) == waiting {
            drop(self.wake.wait(sleepers).unwrap());
        }
    }

    fn release(&self, word: u64) {
        let release = self.or_relaxed(Ordering::Release, Fault::ReleasesRelaxed);
        if self.is_brief || self.fault == Fault::WakesNobody {
            self.word.store(word, release);
        } else if self.word.swap(word, release) & WAITERS != 0 {
            drop(self.sleepers.lock().unwrap());
            self.wake.notify_all();
        }
    }

    /// Changes the chain or, if it has moved, sees what has become of it.
    fn change(&self, tag: u64) {
        if let Some(tags) = self.lock() {
            // SAFETY: under the lock; if that is wrong, loom detects it.
            self.count.with_mut(|count| unsafe { *count += 1 });
            self.release(tags | tag);
        } else {
            self.see_moved();
        }
    }

    /// Moves the chain.
    fn move_away(&self) {
        let tags = self.lock().expect("moved once");
        // SAFETY: under the lock; if that is wrong, loom detects it.
        let count = self.count.with(|count| unsafe { *count });
        // SAFETY: not reached before the mark; if that is wrong, loom detects it.
        self.target.with_mut(|target| unsafe { *target = 1 + count });
        self.release(tags | MOVED);
    }

    /// As a thread does that goes on to where the entries are.
    fn see_moved(&self) {
        let word = self.word.load(Ordering::Acquire);
        // SAFETY: written before the mark; if that is wrong, loom detects it.
        let target = self.target.with(|target| unsafe { *target });
        let entries = u64::from((word & TAGS).count_ones());
        assert_eq!(target, 1 + entries, "a change was lost");
    }
}

/// Two threads change a chain, and one of them moves it.
fn check(fault: Fault, is_brief: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let chain = Arc::new(Chain::new(fault, is_brief));
        let writer = {
            let chain = Arc::clone(&chain);
            thread::spawn(move || chain.change(1))
        };
        chain.change(2);
        chain.move_away();
        writer.join().unwrap();
        assert_eq!(chain.word.load(Ordering::Relaxed) & !TAGS & !WAITERS, MOVED);
        chain.see_moved();
    });
}

#[test]
fn model_of_chains_holds_with_brief_locks() {
    check(Fault::None, true);
}

#[test]
fn model_of_chains_holds_with_other_locks() {
    check(Fault::None, false);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn model_of_chains_that_takes_by_store_is_caught() {
    check(Fault::TakesByStore, true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn model_of_chains_that_takes_relaxed_is_caught() {
    check(Fault::TakesRelaxed, true);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn model_of_chains_that_releases_relaxed_is_caught() {
    check(Fault::ReleasesRelaxed, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn model_of_chains_that_sleeps_until_woken_is_caught() {
    check(Fault::SleepsUntilWoken, true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn model_of_chains_that_sleeps_unnoticed_is_caught() {
    check(Fault::SleepsUnnoticed, false);
}

#[test]
#[should_panic(expected = "deadlock")]
fn model_of_chains_that_wakes_nobody_is_caught() {
    check(Fault::WakesNobody, false);
}
