//! A record whose thread is gone, two threads that find this out, and a later thread of the same
//! number, as in `registry` and `owner`. The property: the record is free at most once.

use std::sync::Arc;

use loom::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use loom::thread;

use super::{beside, check};
use crate::protocol::owner::Owner;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Right,
    /// A thread that takes the record again gets the same stamp as the one before.
    SameStamp,
    /// A thread that finds the owner gone replaces the number, and asks again before it frees the
    /// record.
    AsksTwice,
}

/// The number of all threads that own the record, one after the other.
const NUMBER: i32 = 42;
/// In [`Variant::AsksTwice`]: the record is being taken back.
const TAKEN_BACK: i32 = -1;

struct Model {
    variant: Variant,
    owner: Owner,
    /// The owner, in the variant without stamps.
    number: AtomicI32,
    /// 1 while a thread of that number is alive.
    is_alive: AtomicU32,
    /// How often the record is on the list of free ones.
    free: AtomicU32,
}

impl Model {
    fn new(variant: Variant) -> Arc<Model> {
        let model = Model {
            variant,
            owner: Owner::new(),
            number: AtomicI32::new(NUMBER),
            is_alive: AtomicU32::new(0),
            free: AtomicU32::new(0),
        };
        model.owner.take(1, NUMBER);
        Arc::new(model)
    }

    /// The kernel's answer.
    fn is_gone(&self) -> bool {
        self.is_alive.load(Ordering::SeqCst) == 0
    }

    /// `registry::push`.
    fn push(&self) {
        assert_eq!(self.free.fetch_add(1, Ordering::AcqRel), 0, "a record is free twice");
    }

    /// `registry::take_back`.
    fn take_back(&self) {
        if self.variant == Variant::AsksTwice {
            return self.take_back_and_ask_twice();
        }
        let seen = self.owner.load();
        if seen.thread() != 0 && self.is_gone() && self.owner.take_back(seen) {
            self.push();
        }
    }

    fn take_back_and_ask_twice(&self) {
        let (number, order) = (&self.number, Ordering::AcqRel);
        let owner = number.load(Ordering::Acquire);
        if owner <= 0 || !self.is_gone() {
            return;
        }
        if number.compare_exchange(owner, TAKEN_BACK, order, Ordering::Relaxed).is_err() {
            return;
        }
        if self.is_gone() {
            number.store(0, Ordering::Release);
            self.push();
        } else {
            let _ = number.compare_exchange(TAKEN_BACK, owner, order, Ordering::Relaxed);
        }
    }

    /// A later thread of the same number takes the record, gives it back and ends.
    fn live(&self) {
        self.is_alive.store(1, Ordering::SeqCst);
        let taken = self.free.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            let stamp = if self.variant == Variant::SameStamp { 1 } else { 2 };
            self.owner.take(stamp, NUMBER);
            self.number.store(NUMBER, Ordering::Release);
            let seen = self.owner.load();
            thread::yield_now();
            // `registry::at_exit`.
            if self.owner.take_back(seen) {
                self.number.store(0, Ordering::Release);
                self.push();
            }
        }
        self.is_alive.store(0, Ordering::SeqCst);
    }
}

fn run(variant: Variant) {
    let others: [fn(&Model); 2] = [Model::take_back, |model| {
        model.take_back();
        model.live();
    }];
    check(4, move || beside(&Model::new(variant), others, |_| ()));
}

#[test]
fn model_of_a_record_that_is_taken_back_once() {
    run(Variant::Right);
}

#[test]
#[should_panic(expected = "a record is free twice")]
fn model_of_a_record_without_a_new_stamp_is_caught() {
    run(Variant::SameStamp);
}

#[test]
#[should_panic(expected = "a record is free twice")]
fn model_of_a_record_of_which_whoever_takes_it_asks_twice_is_caught() {
    run(Variant::AsksTwice);
}
