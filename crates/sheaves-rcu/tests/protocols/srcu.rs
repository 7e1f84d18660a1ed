//! The protocol of SRCU domains: counts of entered and left sections at two indexes.
//!
//! A reader takes the index, counts its section as entered there, and as left when it ends. A grace
//! period waits for both indexes in turn, with a flip in between. The property: no reader uses an
//! object that has ended.

use std::sync::Arc;

use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread;

use super::membarrier::Interrupt;
use super::{Things, beside, check};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Right,
    /// Membarrier is refused, and readers fence when they enter.
    Fences,
    /// As `Fences`, and the end of a section has no ordering. With membarriers this would be
    /// correct: a drain reads `left` before its membarrier, so the threads counted there have
    /// passed a fence since.
    RelaxedLeave,
    /// A grace period only waits for the index that was current.
    SingleFlip,
}

struct Model {
    variant: Variant,
    index: AtomicUsize,
    entered: [AtomicUsize; 2],
    left: [AtomicUsize; 2],
    interrupt: Interrupt,
    /// Each update ends the object that it has unlinked.
    things: Things<3>,
}

impl Model {
    fn new(variant: Variant) -> Arc<Model> {
        Arc::new(Model {
            variant,
            index: AtomicUsize::new(0),
            entered: [AtomicUsize::new(0), AtomicUsize::new(0)],
            left: [AtomicUsize::new(0), AtomicUsize::new(0)],
            interrupt: Interrupt::new(),
            things: Things::new(),
        })
    }

    fn reader(&self, sections: usize) {
        for _ in 0..sections {
            let index = self.index.load(Ordering::Relaxed) & 1;
            self.step();
            self.entered[index].fetch_add(1, Ordering::Relaxed);
            if self.has_fences() {
                fence(Ordering::SeqCst);
            }
            self.step();
            let found = self.things.find(Ordering::Acquire);
            self.step();
            self.things.read(found);
            self.step();
            if self.variant != Variant::RelaxedLeave {
                fence(Ordering::Release);
            }
            self.left[index].fetch_add(1, Ordering::Relaxed);
            self.step();
        }
        // Where readers fence, the thread's end has no fence: loom switches threads at atomics and
        // not at fences, so no thread would see the last store without that fence.
        if !self.has_fences() {
            self.interrupt.end();
        }
    }

    fn has_fences(&self) -> bool {
        matches!(self.variant, Variant::Fences | Variant::RelaxedLeave)
    }

    fn step(&self) {
        if !self.has_fences() {
            self.interrupt.step();
        }
    }

    fn membarrier(&self) {
        fence(Ordering::SeqCst);
        if !self.has_fences() {
            Interrupt::membarrier(&[&self.interrupt]);
        }
    }

    fn is_drained(&self, index: usize) -> bool {
        let left = self.left[index].load(Ordering::Relaxed);
        self.membarrier();
        left == self.entered[index].load(Ordering::Relaxed)
    }

    fn synchronize(&self) {
        fence(Ordering::SeqCst);
        let current = self.index.load(Ordering::Relaxed) & 1;
        if self.variant != Variant::SingleFlip {
            while !self.is_drained(current ^ 1) {
                thread::yield_now();
            }
        }
        self.index.store(current ^ 1, Ordering::Relaxed);
        while !self.is_drained(current) {
            thread::yield_now();
        }
        fence(Ordering::SeqCst);
    }

    fn update(&self, number: usize) {
        self.things.link(number + 1);
        self.synchronize();
        self.things.end(number);
    }
}

fn run(variant: Variant, sections: usize, updates: usize, bound: usize) {
    let reader = move |model: &Model| model.reader(sections);
    check(bound, move || {
        beside(&Model::new(variant), [reader], |model| {
            (0..updates).for_each(|number| model.update(number));
        });
    });
}

#[test]
fn model_of_srcu() {
    run(Variant::Right, 1, 2, 3);
}

#[test]
fn model_of_srcu_beside_two_sections() {
    run(Variant::Right, 2, 1, 2);
}

#[test]
#[should_panic]
fn model_of_srcu_with_a_single_flip_is_caught() {
    run(Variant::SingleFlip, 1, 2, 3);
}

#[test]
fn model_of_srcu_with_fences() {
    run(Variant::Fences, 1, 1, 3);
}

#[test]
#[should_panic]
fn model_of_srcu_with_a_relaxed_leave_is_caught() {
    run(Variant::RelaxedLeave, 1, 1, 3);
}
