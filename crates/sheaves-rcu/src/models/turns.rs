//! Those who stand in line for their turn, on the real [`Turns`] and [`Generations`].
//!
//! As in `waiters`, but whoever does not lead stands in line, and nobody looks for himself after a
//! while. What must hold: nobody returns before his grace period is over, and nobody stands there
//! for ever (which loom reports as a deadlock).

use std::sync::Arc;
use std::vec::Vec;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;

use crate::generation::{Generations, Sleep};
use crate::turns::{Line, Stood, Turns};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Right,
    /// Who stands in line does not look whether somebody leads.
    StandsBlindly,
    /// Who gives back the lead calls nobody.
    LeaderCallsNobody,
    /// Who is called, and does not lead, calls nobody.
    CalledCallsNobody,
    /// Who is called calls the next one, but still counts as on the way.
    NeverComes,
}

/// Threads on one word: how many sleep there, and how many of them were woken and have not left.
struct Sleepers {
    counts: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Sleep for Sleepers {
    fn wait(&self, _: &AtomicU32, _: u32) {
        unreachable!("everybody stands in line");
    }

    fn wake_one(&self, _: &AtomicU32) -> bool {
        false
    }

    fn wake_all(&self, _: &AtomicU32) {
        let mut counts = self.counts.lock().unwrap();
        counts.1 = counts.0;
        self.changed.notify_all();
    }
}

impl Line for Sleepers {
    fn place(&self) -> usize {
        0
    }

    fn stand(&self, word: &AtomicU32, expected: u32, _: usize) -> Stood {
        let mut counts = self.counts.lock().unwrap();
        if word.load(Ordering::Relaxed) != expected {
            return Stood::Changed;
        }
        counts.0 += 1;
        while counts.1 == 0 {
            counts = self.changed.wait(counts).unwrap();
        }
        counts.0 -= 1;
        counts.1 -= 1;
        Stood::Called
    }

    fn call(&self, _: &AtomicU32, place: Option<usize>) -> bool {
        let mut counts = self.counts.lock().unwrap();
        // Which processor somebody is on is nothing to a model.
        let found = place.is_none() && counts.0 > counts.1;
        if found {
            counts.1 += 1;
            self.changed.notify_all();
        }
        found
    }
}

struct Model {
    variant: Variant,
    generations: Generations,
    turns: Turns,
    sleepers: Sleepers,
}

impl Model {
    fn new(variant: Variant) -> Arc<Model> {
        Arc::new(Model {
            variant,
            generations: Generations::new(),
            turns: Turns::new(),
            sleepers: Sleepers { counts: Mutex::new((0, 0)), changed: Condvar::new() },
        })
    }

    /// `grace::wait_for`.
    fn wait_for(&self, number: u64, me: usize) {
        while !self.generations.is_complete(number) {
            if !self.turns.is_of_another(me) && self.generations.try_lead() {
                while !self.generations.is_complete(number) {
                    let (begun, _) = self.generations.begin();
                    self.generations.complete(begun, &self.sleepers);
                }
                self.generations.hand_over(&self.sleepers);
                if self.variant != Variant::LeaderCallsNobody {
                    self.turns.call_next(&self.sleepers);
                }
            } else {
                self.stand_in_line(number, me);
            }
        }
    }

    /// `grace::stand_in_line`.
    fn stand_in_line(&self, number: u64, me: usize) {
        let is_led = || self.variant == Variant::StandsBlindly || self.generations.is_led();
        if self.turns.stand(is_led, &self.sleepers) == Stood::Changed {
            thread::yield_now();
            return;
        }
        if self.variant != Variant::NeverComes {
            self.turns.come(me, 0, 0);
        }
        let is_over = self.generations.is_complete(number);
        if is_over && self.variant != Variant::CalledCallsNobody {
            self.turns.call_next(&self.sleepers);
        }
    }

    fn synchronize(&self, me: usize) {
        let number = self.generations.join();
        self.wait_for(number, me);
        assert!(self.generations.is_complete(number), "a waiter is released too early");
    }
}

fn waiters(variant: Variant, threads: usize, bound: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.check(move || {
        let model = Model::new(variant);
        let waiters: Vec<_> = (1..threads)
            .map(|me| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.synchronize(2 * me))
            })
            .collect();
        model.synchronize(2 * threads);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn model_of_two_in_turn() {
    waiters(Variant::Right, 2, 3);
}

#[test]
fn model_of_three_in_turn() {
    waiters(Variant::Right, 3, 2);
}

#[test]
#[should_panic(expected = "deadlock")]
fn model_of_one_who_stands_blindly_is_caught() {
    waiters(Variant::StandsBlindly, 2, 3);
}

#[test]
#[should_panic(expected = "deadlock")]
fn model_of_a_leader_that_calls_nobody_is_caught() {
    waiters(Variant::LeaderCallsNobody, 2, 3);
}

#[test]
#[should_panic(expected = "deadlock")]
fn model_of_a_called_one_that_calls_nobody_is_caught() {
    waiters(Variant::CalledCallsNobody, 3, 2);
}

#[test]
#[should_panic(expected = "deadlock")]
fn model_of_one_that_is_on_the_way_for_ever_is_caught() {
    waiters(Variant::NeverComes, 3, 2);
}
