//! Threads that wait for grace periods, on the real [`Generations`].
//!
//! Sleeping is a mutex and a condition variable. Reading is a flag that a reader sets and clears;
//! leading a grace period waits for the readers that are there when it begins. The property: no
//! waiter returns while a reader is inside a section that began before the waiter's call, and no
//! waiter sleeps for ever (which loom reports as a deadlock).

use std::sync::Arc;

use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::{Deaf, beside, check};
use crate::protocol::generation::{Generations, Sleep};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Right,
    /// The published form: a waiter that arrives during a grace period is released at its end.
    ReleasesTheMiddle,
    /// No sleeper is woken to lead.
    NoHandOver,
    /// A waiter sleeps without checking again whether a thread leads.
    SleepsBlindly,
}

/// A futex that serves one word at a time.
struct Futex {
    mutex: Mutex<()>,
    woken: Condvar,
}

impl Sleep for Futex {
    fn wait(&self, word: &AtomicU32, expected: u32) {
        let held = self.mutex.lock().unwrap();
        if word.load(Ordering::Relaxed) == expected {
            drop(self.woken.wait(held).unwrap());
        }
    }

    fn wake_one(&self, word: &AtomicU32) -> bool {
        // Sleepers on the other word are woken in vain, which a futex permits.
        self.wake_all(word);
        true
    }

    fn wake_all(&self, _: &AtomicU32) {
        let _held = self.mutex.lock().unwrap();
        self.woken.notify_all();
    }
}

struct Model {
    variant: Variant,
    generations: Generations,
    futex: Futex,
    /// Numbers that were released early, in [`Variant::ReleasesTheMiddle`].
    released: AtomicUsize,
    /// A section that begins and ends while threads wait.
    is_reading: AtomicBool,
}

impl Model {
    fn new(variant: Variant) -> Arc<Model> {
        Arc::new(Model {
            variant,
            generations: Generations::new(),
            futex: Futex { mutex: Mutex::new(()), woken: Condvar::new() },
            released: AtomicUsize::new(0),
            is_reading: AtomicBool::new(false),
        })
    }

    fn is_complete(&self, number: u64) -> bool {
        let early = self.variant == Variant::ReleasesTheMiddle
            && self.released.load(Ordering::Acquire) as u64 >= number;
        early || self.generations.is_complete(number)
    }

    /// `grace::wait_for`.
    fn wait_for(&self, number: u64) {
        while !self.is_complete(number) {
            if self.generations.try_lead() {
                self.lead_until(number);
                self.hand_over();
            } else {
                self.sleep(number);
            }
        }
    }

    fn lead_until(&self, number: u64) {
        while !self.is_complete(number) {
            let begun = self.generations.begin();
            // The scan: waits for the readers that are there now.
            while self.is_reading.load(Ordering::Acquire) {
                thread::yield_now();
            }
            if self.variant == Variant::ReleasesTheMiddle {
                // Every waiter that has a number by now, including that of the next grace period.
                self.released.store(begun as usize + 1, Ordering::Release);
            }
            self.generations.complete(begun, &self.futex);
        }
    }

    fn hand_over(&self) {
        if self.variant == Variant::NoHandOver {
            self.generations.hand_over(&Deaf);
        } else {
            self.generations.hand_over(&self.futex);
        }
    }

    fn sleep(&self, number: u64) {
        if self.variant == Variant::SleepsBlindly {
            let held = self.futex.mutex.lock().unwrap();
            if !self.generations.is_complete(number) {
                drop(self.futex.woken.wait(held).unwrap());
            }
        } else {
            self.generations.sleep(number, &self.futex);
        }
    }

    fn synchronize(&self) {
        let number = self.generations.next();
        self.wait_for(number);
        assert!(self.generations.is_complete(number), "a waiter is released too early");
    }
}

fn waiters(variant: Variant, threads: usize, bound: usize) {
    let others = core::iter::repeat_n(Model::synchronize, threads - 1);
    check(bound, move || beside(&Model::new(variant), others.clone(), Model::synchronize));
}

#[test]
fn model_of_two_waiters() {
    waiters(Variant::Right, 2, 4);
}

#[test]
fn model_of_three_waiters() {
    waiters(Variant::Right, 3, 2);
}

#[test]
#[should_panic(expected = "released too early")]
fn model_that_releases_the_middle_is_caught() {
    waiters(Variant::ReleasesTheMiddle, 2, 3);
}

#[test]
#[should_panic(expected = "deadlock")]
fn model_without_hand_over_is_caught() {
    waiters(Variant::NoHandOver, 3, 3);
}

#[test]
#[should_panic(expected = "deadlock")]
fn model_that_sleeps_blindly_is_caught() {
    waiters(Variant::SleepsBlindly, 2, 3);
}
