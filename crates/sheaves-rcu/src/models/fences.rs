//! Grace periods without a membarrier: threads pass fences, and take notes of it, as `fences` has
//! it.
//!
//! One thread registers, reads, defers and ends beside an updater. What must hold: it is not at the
//! thing when that ends.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use loom::thread;

use super::{beside, check};
use crate::word::{self, FENCED, FIRST, IDLE};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Right,
    /// A thread looks what has begun after its fence, and takes a note of that.
    LooksLate,
    /// A thread notes what has begun, and passes no fence.
    NoFence,
    /// A thread registers without a fence.
    NoFenceAtFirst,
    /// The record is given back without order.
    RelaxedEnd,
    /// The first section after a thread was idle does not fence.
    NoFenceAfterIdle,
    /// It fences before its word says that it is there.
    FenceFirst,
    /// The leader looks whether a thread is in a section, then whether it has fenced.
    LooksAtWordFirst,
}

/// `fences::Readers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readers {
    Gone,
    Fenced,
    Unfenced,
}

struct Model {
    variant: Variant,
    /// The last grace period that has begun.
    started: AtomicU64,
    global: AtomicU64,
    owner: AtomicUsize,
    fenced: AtomicU64,
    word: AtomicU64,
    /// Which thing is linked.
    linked: AtomicUsize,
    /// The things; the first one ends.
    things: [UnsafeCell<usize>; 2],
}

// SAFETY: whether things are used one at a time is what the model is about.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

impl Model {
    fn new(variant: Variant) -> Arc<Model> {
        Arc::new(Model {
            variant,
            started: AtomicU64::new(0),
            global: AtomicU64::new(FIRST),
            owner: AtomicUsize::new(0),
            fenced: AtomicU64::new(0),
            word: AtomicU64::new(IDLE),
            linked: AtomicUsize::new(0),
            things: [UnsafeCell::new(1), UnsafeCell::new(1)],
        })
    }

    fn begun(&self) -> u64 {
        self.started.load(Ordering::Relaxed)
    }

    /// `registry::register`.
    fn register(&self) {
        let begun = self.begun();
        self.word.store(IDLE, Ordering::Release);
        self.owner.store(1, Ordering::Relaxed);
        if self.variant != Variant::NoFenceAtFirst {
            fence(Ordering::SeqCst);
            self.fenced.store(begun, Ordering::Relaxed);
        }
    }

    /// `grace::next`.
    fn defer(&self) {
        let is_late = self.variant == Variant::LooksLate;
        let begun = if is_late { 0 } else { self.begun() };
        if self.variant != Variant::NoFence {
            fence(Ordering::SeqCst);
        }
        let begun = if is_late { self.begun() } else { begun };
        self.fenced.store(begun, Ordering::Relaxed);
    }

    fn section(&self) {
        let idle = self.word.load(Ordering::Relaxed);
        let global = self.global.load(Ordering::Relaxed);
        if idle == FENCED && self.variant == Variant::FenceFirst {
            fence(Ordering::SeqCst);
        }
        self.word.store(word::outermost(idle, global), Ordering::Release);
        let forgets = [Variant::NoFenceAfterIdle, Variant::FenceFirst].contains(&self.variant);
        if idle == FENCED && !forgets {
            fence(Ordering::SeqCst);
        }
        // Acquire would hide what is missing elsewhere; what is linked is there from the start.
        let linked = self.linked.load(Ordering::Relaxed);
        // SAFETY: linked when the section began; where that is wrong, loom or the value tells.
        let value = self.things[linked].with(|thing| unsafe { *thing });
        assert_eq!(value, 1, "a reader has a thing that has ended");
        self.word.store(IDLE, Ordering::Release);
    }

    /// `registry::release`.
    fn end(&self) {
        let order = match self.variant {
            Variant::RelaxedEnd => Ordering::Relaxed,
            _ => Ordering::Release,
        };
        self.owner.store(0, order);
    }

    /// Defers between two sections.
    fn reads_and_defers(&self) {
        self.register();
        self.defer();
        self.section();
        self.end();
    }

    /// Defers in a section.
    fn defers_inside(&self) {
        self.register();
        let global = self.global.load(Ordering::Relaxed);
        self.word.store(word::outermost(IDLE, global), Ordering::Release);
        let linked = self.linked.load(Ordering::Relaxed);
        self.defer();
        // SAFETY: linked when the section began; where that is wrong, loom or the value tells.
        let value = self.things[linked].with(|thing| unsafe { *thing });
        assert_eq!(value, 1, "a reader has a thing that has ended");
        self.word.store(IDLE, Ordering::Release);
        self.end();
    }

    /// Is idle, and reads.
    fn is_idle_and_reads(&self) {
        self.register();
        self.word.store(FENCED, Ordering::Release);
        self.section();
        self.end();
    }

    /// Reads once.
    fn reads(&self) {
        self.register();
        self.section();
        self.end();
    }

    /// `fences::look`.
    fn look(&self, number: u64) -> Readers {
        let is_early = self.variant == Variant::LooksAtWordFirst;
        let early = if is_early { self.word.load(Ordering::Acquire) } else { 0 };
        let has_fenced = self.fenced.load(Ordering::Acquire) >= number;
        let word = if is_early { early } else { self.word.load(Ordering::Acquire) };
        if has_fenced {
            return if word::is_reading(word) { Readers::Fenced } else { Readers::Gone };
        }
        if word == FENCED || self.owner.load(Ordering::Acquire) == 0 {
            return Readers::Gone;
        }
        Readers::Unfenced
    }

    /// Unlinks the thing, and ends it unless somebody would have to be interrupted for that.
    fn update(&self) {
        self.linked.store(1, Ordering::Release);
        // `Generations::next`, and `begin`. What they load is known: nobody else begins. Loads
        // would hide from the checker that the store and a load of the other thread may change
        // places.
        let number = 1;
        fence(Ordering::SeqCst);
        self.started.store(number, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut looks = 0;
        let readers = loop {
            let readers = self.look(number);
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
            let global = self.global.load(Ordering::Relaxed) + word::STEP;
            self.global.store(global, Ordering::Relaxed);
            while !word::has_passed(self.word.load(Ordering::Acquire), global) {
                thread::yield_now();
            }
        }
        fence(Ordering::SeqCst);
        // SAFETY: nobody has the first thing any more; where that is wrong, loom tells.
        self.things[0].with_mut(|thing| unsafe { *thing = 0 });
    }
}

fn run(variant: Variant, reader: fn(&Model)) {
    check(8, move || beside(&Model::new(variant), [reader], Model::update));
}

#[test]
fn model_of_fences_that_threads_pass_anyway() {
    run(Variant::Right, Model::reads_and_defers);
}

#[test]
fn model_of_a_thread_that_comes_and_goes() {
    run(Variant::Right, Model::reads);
}

#[test]
#[should_panic]
fn model_that_looks_after_the_fence_is_caught() {
    run(Variant::LooksLate, Model::reads_and_defers);
}

#[test]
#[should_panic]
fn model_of_a_note_without_a_fence_is_caught() {
    run(Variant::NoFence, Model::reads_and_defers);
}

#[test]
#[should_panic]
fn model_that_registers_without_a_fence_is_caught() {
    run(Variant::NoFenceAtFirst, Model::reads);
}

#[test]
#[should_panic]
fn model_with_a_relaxed_end_is_caught() {
    run(Variant::RelaxedEnd, Model::reads);
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
fn model_that_fences_before_its_word_is_caught() {
    run(Variant::FenceFirst, Model::is_idle_and_reads);
}

#[test]
fn model_of_a_thread_that_defers_in_a_section() {
    run(Variant::Right, Model::defers_inside);
}

#[test]
#[should_panic]
fn model_that_looks_at_words_first_is_caught() {
    run(Variant::LooksAtWordFirst, Model::defers_inside);
}
