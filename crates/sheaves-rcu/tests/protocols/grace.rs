//! The protocol of a grace period: a reader beside an updater, as in `grace::period`.
//!
//! The updater unlinks an object, waits for readers and ends the object. The property: no reader
//! uses an object that has ended. Where readers fence they are the real ones; elsewhere the model
//! has to stop between two of their steps, and takes the values of states from `reader`.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use loom::thread;

use super::membarrier::Interrupt;
use super::{Things, beside, check};
use crate::protocol::reader::{self, FIRST, Left, OUTSIDE, OUTSIDE_FENCED, Reader, STEP};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Right,
    /// Membarrier is refused, and readers fence.
    Fences,
    /// Membarrier is refused, and readers do not fence.
    FencesForgotten,
    /// The sequence advances before the membarrier.
    AdvanceFirst,
    /// There is no membarrier.
    NoMembarrier,
    /// The unlock has no ordering.
    RelaxedUnlock,
    /// The outermost lock has no ordering: a scan that reads its state knows nothing of the section
    /// before.
    RelaxedLock,
    /// A thread that takes over a record initialises its state without ordering.
    RelaxedTakeOver,
    /// The thread registers after its first section has begun.
    RegisteredLate,
}

struct Model {
    variant: Variant,
    global: AtomicU64,
    /// Records in the registry.
    registered: AtomicUsize,
    reader: Reader,
    interrupt: Interrupt,
    /// 1 once the first thread has freed its record.
    is_free: AtomicUsize,
    /// The first object ends.
    things: Things<2>,
}

impl Model {
    fn new(variant: Variant) -> Arc<Model> {
        Arc::new(Model {
            variant,
            global: AtomicU64::new(FIRST),
            registered: AtomicUsize::new(0),
            reader: Reader::new(OUTSIDE),
            interrupt: Interrupt::new(),
            is_free: AtomicUsize::new(0),
            things: Things::new(),
        })
    }

    fn has_fences(&self) -> bool {
        matches!(
            self.variant,
            Variant::Fences | Variant::FencesForgotten | Variant::RelaxedTakeOver
        )
    }

    fn step(&self) {
        if !self.has_fences() {
            self.interrupt.step();
        }
    }

    fn register(&self) {
        let outside = if self.has_fences() { OUTSIDE_FENCED } else { OUTSIDE };
        self.reader.state.store(outside, Ordering::Relaxed);
        self.registered.store(1, Ordering::Release);
    }

    fn reader(&self, sections: usize) {
        if self.variant != Variant::RegisteredLate {
            self.register();
            self.step();
        }
        for _ in 0..sections {
            self.section();
            self.step();
        }
        self.interrupt.end();
    }

    /// A thread that ends, and whose record the next one takes. Membarrier is refused: loom lets a
    /// thread that waits for another's fence continue only when that other thread has ended.
    fn predecessor(&self) {
        self.register();
        self.step();
        self.section();
        self.is_free.store(1, Ordering::Release);
    }

    /// Takes the record over. Its own sections would change nothing: the scan reads its state.
    fn heir(&self) {
        if self.is_free.load(Ordering::Acquire) != 0 {
            let order = match self.variant {
                Variant::RelaxedTakeOver => Ordering::Relaxed,
                _ => Ordering::Release,
            };
            self.reader.state.store(OUTSIDE_FENCED, order);
        }
    }

    fn section(&self) {
        if self.variant == Variant::Fences {
            assert_eq!(self.reader.enter_slow(&self.global), Some(true));
            let found = self.things.find(Ordering::Acquire);
            self.things.read(found);
            assert_eq!(self.reader.leave_slow(), Left::Section);
            return;
        }
        let outside = self.reader.state.load(Ordering::Relaxed);
        let global = self.global.load(Ordering::Relaxed);
        self.step();
        let order = match self.variant {
            Variant::RelaxedLock => Ordering::Relaxed,
            _ => Ordering::Release,
        };
        self.reader.state.store(reader::outermost(outside, global), order);
        if self.has_fences() && self.variant != Variant::FencesForgotten {
            fence(Ordering::SeqCst);
        }
        self.step();
        let found = self.things.find(Ordering::Acquire);
        self.step();
        self.things.read(found);
        self.step();
        let order = match self.variant {
            Variant::RelaxedUnlock => Ordering::Relaxed,
            _ => Ordering::Release,
        };
        if self.variant == Variant::RegisteredLate {
            self.registered.store(1, Ordering::Release);
        }
        let state = self.reader.state.load(Ordering::Relaxed);
        self.reader.state.store(reader::left(state), order);
    }

    fn advance(&self) -> u64 {
        let global = self.global.load(Ordering::Relaxed) + STEP;
        self.global.store(global, Ordering::Relaxed);
        global
    }

    fn wait_for_readers(&self) {
        let early = (self.variant == Variant::AdvanceFirst).then(|| self.advance());
        fence(Ordering::SeqCst);
        let fenced = !self.has_fences() && self.variant != Variant::NoMembarrier;
        if fenced {
            Interrupt::membarrier(&[&self.interrupt]);
        }
        let global = early.unwrap_or_else(|| self.advance());
        if self.registered.load(Ordering::Acquire) != 0 {
            while !self.reader.has_passed(global) {
                thread::yield_now();
            }
        }
        fence(Ordering::SeqCst);
    }

    fn update(&self) {
        self.things.link(1);
        self.wait_for_readers();
        self.things.end(0);
    }
}

fn run(variant: Variant, sections: usize) {
    let reader = move |model: &Model| model.reader(sections);
    check(5, move || beside(&Model::new(variant), [reader], Model::update));
}

#[test]
fn model_of_a_grace_period() {
    run(Variant::Right, 1);
}

#[test]
fn model_of_a_grace_period_beside_two_sections() {
    run(Variant::Right, 2);
}

#[test]
fn model_of_a_grace_period_with_fences() {
    run(Variant::Fences, 1);
}

#[test]
#[should_panic]
fn model_with_fences_forgotten_is_caught() {
    run(Variant::FencesForgotten, 1);
}

#[test]
#[should_panic]
fn model_that_advances_first_is_caught() {
    run(Variant::AdvanceFirst, 1);
}

#[test]
#[should_panic]
fn model_without_a_membarrier_is_caught() {
    run(Variant::NoMembarrier, 1);
}

#[test]
#[should_panic]
fn model_with_a_relaxed_unlock_is_caught() {
    run(Variant::RelaxedUnlock, 2);
}

#[test]
#[should_panic]
fn model_with_a_relaxed_lock_is_caught() {
    run(Variant::RelaxedLock, 2);
}

#[test]
#[should_panic]
fn model_that_registers_late_is_caught() {
    run(Variant::RegisteredLate, 1);
}

fn run_with_heir(variant: Variant) {
    let others: [fn(&Model); 2] = [Model::predecessor, Model::heir];
    check(3, move || beside(&Model::new(variant), others, Model::update));
}

#[test]
fn model_of_a_record_that_is_taken_over() {
    run_with_heir(Variant::Fences);
}

#[test]
#[should_panic]
fn model_with_a_relaxed_take_over_is_caught() {
    run_with_heir(Variant::RelaxedTakeOver);
}

/// Two grace periods in a row, beside a reader that may have an old sequence.
#[test]
fn model_of_two_grace_periods() {
    let reader = |model: &Model| model.reader(1);
    check(3, move || {
        beside(&Model::new(Variant::Right), [reader], |model| {
            model.wait_for_readers();
            model.update();
        });
    });
}
