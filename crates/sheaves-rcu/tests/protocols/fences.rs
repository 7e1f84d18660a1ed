//! Grace periods without a membarrier: threads pass fences and note them, as in `reader::fences`.
//!
//! One thread reads, defers or ends beside an updater. The property: it does not use an object that
//! has ended.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use super::{Things, beside, check};
use crate::protocol::reader::{self, FIRST, Left, OUTSIDE, OUTSIDE_FENCED, Reader, Readers, STEP};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Right,
    /// A thread reads what has begun after its fence, and notes that.
    LooksLate,
    /// A thread notes what has begun, and passes no fence.
    NoFence,
    /// The record is freed without ordering.
    RelaxedEnd,
    /// The first section after a thread was idle does not fence.
    NoFenceAfterIdle,
    /// It fences before it has stored its state.
    FenceFirst,
    /// The leader reads a thread's state before its note.
    LooksAtStateFirst,
    /// A nested section relies on the fence of the outer one.
    NestedWithoutFence,
}

struct Model {
    variant: Variant,
    /// The last grace period that has begun.
    started: AtomicU64,
    global: AtomicU64,
    reader: Reader,
    /// The first object ends.
    things: Things<2>,
}

impl Model {
    /// With a thread that reads without fences, or is idle.
    fn new(variant: Variant, outside: u64) -> Model {
        Model {
            variant,
            started: AtomicU64::new(0),
            global: AtomicU64::new(FIRST),
            reader: Reader::new(outside),
            things: Things::new(),
        }
    }

    fn is(&self, variant: Variant) -> bool {
        self.variant == variant
    }

    fn begun(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// `grace::next`.
    fn defer(&self) {
        let is_late = self.is(Variant::LooksLate);
        let begun = if is_late { 0 } else { self.begun() };
        if !self.is(Variant::NoFence) {
            fence(Ordering::SeqCst);
        }
        let begun = if is_late { self.begun() } else { begun };
        self.reader.note_fence(begun);
    }

    /// A section, then a store of `left` into the state.
    fn section_before(&self, left: u64) {
        self.enter();
        // Acquire would hide what is missing elsewhere; the linked object exists from the start.
        let found = self.things.find(Ordering::Relaxed);
        self.things.read(found);
        self.reader.state.store(left, Ordering::Release);
    }

    fn enter(&self) {
        if !self.is(Variant::FenceFirst) && !self.is(Variant::NoFenceAfterIdle) {
            assert_eq!(self.reader.enter_slow(&self.global), Some(true));
            return;
        }
        let outside = self.reader.state.load(Ordering::Relaxed);
        let global = self.global.load(Ordering::Relaxed);
        if outside == OUTSIDE_FENCED && self.is(Variant::FenceFirst) {
            fence(Ordering::SeqCst);
        }
        self.reader.state.store(reader::outermost(outside, global), Ordering::Release);
    }

    /// Reads twice, the first time as one of a thread's first sections.
    fn reads_twice(&self) {
        self.section_before(OUTSIDE_FENCED);
        self.section_before(OUTSIDE);
    }

    /// Reads twice, the second time without a fence.
    fn reads_on(&self) {
        self.section_before(OUTSIDE);
        self.section_before(OUTSIDE);
    }

    /// Reads, and ends: `registry::clear`.
    fn reads_and_ends(&self) {
        self.section_before(OUTSIDE);
        let order = match self.variant {
            Variant::RelaxedEnd => Ordering::Relaxed,
            _ => Ordering::Release,
        };
        self.reader.state.store(OUTSIDE_FENCED, order);
    }

    /// Defers between two sections.
    fn defers_and_reads(&self) {
        self.defer();
        self.section_before(OUTSIDE);
    }

    /// Defers inside a section.
    fn defers_inside(&self) {
        self.enter();
        let found = self.things.find(Ordering::Relaxed);
        self.defer();
        self.things.read(found);
        self.reader.state.store(OUTSIDE, Ordering::Release);
    }

    /// Becomes idle, then reads.
    fn is_idle_and_reads(&self) {
        self.reader.state.store(OUTSIDE_FENCED, Ordering::Release);
        self.section_before(OUTSIDE);
    }

    /// A signal handler reads between the store and the fence of the section that it interrupts.
    fn is_interrupted_before_its_fence(&self) {
        let global = self.global.load(Ordering::Relaxed);
        self.reader.state.store(reader::outermost(OUTSIDE_FENCED, global), Ordering::Release);
        let is_right = !self.is(Variant::NestedWithoutFence);
        if is_right {
            assert_eq!(self.reader.enter_slow(&self.global), Some(false));
        }
        let found = self.things.find(Ordering::Relaxed);
        self.things.read(found);
        if is_right {
            assert_eq!(self.reader.leave_slow(), Left::Section);
        }
        fence(Ordering::SeqCst);
        self.reader.state.store(OUTSIDE, Ordering::Release);
    }

    fn passed(&self, number: u64) -> Readers {
        if !self.is(Variant::LooksAtStateFirst) {
            return self.reader.passed(number);
        }
        let state = self.reader.state.load(Ordering::Acquire);
        match self.reader.fenced.load(Ordering::Acquire) >= number {
            true if reader::is_reading(state) => Readers::Fenced,
            false if state != OUTSIDE_FENCED => Readers::Unfenced,
            _ => Readers::Gone,
        }
    }

    /// Unlinks the object, and ends it unless this would need a membarrier.
    fn update(&self) {
        self.things.link(1);
        // `Generations::next`, and `begin`. The values that they load are known: no other thread
        // begins. Loads would hide from loom that the store and a load of the other thread may be
        // reordered.
        let number = 1;
        fence(Ordering::SeqCst);
        self.started.store(number, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut looks = 0;
        let readers = loop {
            let readers = self.passed(number);
            looks += 1;
            if readers != Readers::Unfenced {
                break readers;
            }
            if looks == 3 {
                return;
            }
            thread::yield_now();
        };
        if readers == Readers::Fenced {
            let global = self.global.load(Ordering::Relaxed) + STEP;
            self.global.store(global, Ordering::Relaxed);
            while !self.reader.has_passed(global) {
                thread::yield_now();
            }
        }
        fence(Ordering::SeqCst);
        self.things.end(0);
    }
}

/// Beside a thread that reads without fences.
fn run(variant: Variant, reader: fn(&Model)) {
    let model = move || Arc::new(Model::new(variant, OUTSIDE));
    check(8, move || beside(&model(), [reader], Model::update));
}

/// Beside a thread that is idle.
fn run_beside_idle(variant: Variant, reader: fn(&Model)) {
    let model = move || Arc::new(Model::new(variant, OUTSIDE_FENCED));
    check(8, move || beside(&model(), [reader], Model::update));
}

#[test]
fn model_of_fences_that_threads_pass_anyway() {
    run(Variant::Right, Model::defers_and_reads);
}

#[test]
#[should_panic]
fn model_that_looks_after_the_fence_is_caught() {
    run(Variant::LooksLate, Model::defers_and_reads);
}

#[test]
#[should_panic]
fn model_of_a_note_without_a_fence_is_caught() {
    run(Variant::NoFence, Model::defers_and_reads);
}

#[test]
fn model_of_a_thread_that_ends() {
    run(Variant::Right, Model::reads_and_ends);
}

#[test]
#[should_panic]
fn model_with_a_relaxed_end_is_caught() {
    run(Variant::RelaxedEnd, Model::reads_and_ends);
}

#[test]
fn model_of_a_thread_that_was_idle() {
    run(Variant::Right, Model::is_idle_and_reads);
}

#[test]
#[should_panic]
fn model_without_a_fence_after_idling_is_caught() {
    run(Variant::NoFenceAfterIdle, Model::is_idle_and_reads);
}

#[test]
#[should_panic]
fn model_that_fences_before_its_state_is_caught() {
    run(Variant::FenceFirst, Model::is_idle_and_reads);
}

#[test]
fn model_of_a_thread_that_defers_in_a_section() {
    run(Variant::Right, Model::defers_inside);
}

#[test]
#[should_panic]
fn model_that_looks_at_states_first_is_caught() {
    run(Variant::LooksAtStateFirst, Model::defers_inside);
}

#[test]
fn model_of_a_thread_that_comes_back() {
    run_beside_idle(Variant::Right, Model::reads_twice);
    run_beside_idle(Variant::Right, Model::reads_on);
}

#[test]
fn model_of_a_handler_that_reads_before_the_fence() {
    run_beside_idle(Variant::Right, Model::is_interrupted_before_its_fence);
}

#[test]
#[should_panic]
fn model_of_a_handler_without_a_fence_is_caught() {
    run_beside_idle(Variant::NestedWithoutFence, Model::is_interrupted_before_its_fence);
}
