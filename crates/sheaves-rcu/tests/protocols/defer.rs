//! Sealing beside pushing, and cookies, as in `defer`, on the real [`Generations`].
//!
//! A reader uses an object. An updater unlinks it and pushes it into the buffer of its slot. A
//! driver seals the buffers, takes a cookie, waits for a grace period and ends what it has sealed.
//! The property: nothing ends while the reader uses it, and after a barrier nothing is left.
//! Pushing is a step under a mutex here; `sheaves-slab` models that restartable sequences and
//! drains do not tear.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicUsize, Ordering, fence};
use loom::thread;

use super::{Deaf, beside, check};
use crate::protocol::generation::Generations;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Right,
    /// The cookie is taken when the buffer is begun.
    CookieAtPush,
    /// Objects that arrive while a batch waits are added to it.
    AttachesToWaiting,
    /// Only the driver's own slot is sealed.
    ForgetsIdleSlots,
    /// Disarms after it has looked at what is there.
    DisarmsLate,
}

struct Model {
    variant: Variant,
    generations: Generations,
    is_reading: AtomicUsize,
    /// 1 while the object can be found.
    is_linked: AtomicUsize,
    thing: UnsafeCell<usize>,
    /// The buffers of two slots: how often the object is in each.
    buffers: [Mutex<usize>; 2],
    is_armed: AtomicUsize,
}

// SAFETY: the model checks whether the object is used by one thread at a time.
unsafe impl Sync for Model {}
// SAFETY: as above.
unsafe impl Send for Model {}

impl Model {
    fn new(variant: Variant) -> Arc<Model> {
        Arc::new(Model {
            variant,
            generations: Generations::new(),
            is_reading: AtomicUsize::new(0),
            is_linked: AtomicUsize::new(1),
            thing: UnsafeCell::new(1),
            buffers: [Mutex::new(0), Mutex::new(0)],
            is_armed: AtomicUsize::new(0),
        })
    }

    fn read(&self) {
        self.is_reading.store(1, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.is_linked.load(Ordering::Acquire) == 1 {
            // SAFETY: it does not end while this reads; loom detects it if it does.
            self.thing.with(|thing| assert_eq!(unsafe { *thing }, 1));
        }
        self.is_reading.store(0, Ordering::Release);
    }

    fn defer(&self, slot: usize) {
        self.is_linked.store(0, Ordering::Release);
        *self.buffers[slot].lock().unwrap() += 1;
        if self.is_armed.load(Ordering::Relaxed) == 0 {
            self.is_armed.store(1, Ordering::Relaxed);
        }
    }

    fn take(&self) -> usize {
        let slots = if self.variant == Variant::ForgetsIdleSlots { 1 } else { 2 };
        self.buffers[..slots]
            .iter()
            .map(|buffer| core::mem::take(&mut *buffer.lock().unwrap()))
            .sum()
    }

    fn wait_for(&self, number: u64) {
        while !self.generations.is_complete(number) {
            let begun = self.generations.begin();
            while self.is_reading.load(Ordering::Acquire) != 0 {
                thread::yield_now();
            }
            self.generations.complete(begun, &Deaf);
        }
    }

    /// One round of the driver.
    fn round(&self) {
        if self.variant != Variant::DisarmsLate {
            self.is_armed.swap(0, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
        let early = self.generations.next();
        if self.variant == Variant::CookieAtPush {
            self.wait_for(early);
        }
        let mut batch = self.take();
        if self.variant != Variant::CookieAtPush {
            self.wait_for(self.generations.next());
        }
        if self.variant == Variant::AttachesToWaiting {
            batch += self.take();
        }
        if self.variant == Variant::DisarmsLate {
            self.is_armed.swap(0, Ordering::SeqCst);
        }
        if batch > 0 {
            // SAFETY: a grace period has passed; loom detects it if not.
            self.thing.with_mut(|thing| unsafe { *thing = 0 });
        }
    }

    fn is_empty(&self) -> bool {
        self.buffers.iter().all(|buffer| *buffer.lock().unwrap() == 0)
    }
}

/// A reader and an updater beside the driver; then a barrier.
fn deferring(variant: Variant) {
    let others: [fn(&Model); 2] = [Model::read, |model| model.defer(1)];
    check(3, move || {
        let model = Model::new(variant);
        beside(&model, others, Model::round);
        let is_armed = model.is_armed.load(Ordering::Relaxed) == 1;
        assert!(model.is_empty() || is_armed, "something is left that no round will find");
        // The barrier: the updater was before it.
        model.round();
        assert!(model.is_empty(), "a barrier has left something");
    });
}

#[test]
fn model_of_deferring() {
    deferring(Variant::Right);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn model_with_a_cookie_at_push_is_caught() {
    deferring(Variant::CookieAtPush);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn model_that_attaches_to_a_waiting_batch_is_caught() {
    deferring(Variant::AttachesToWaiting);
}

#[test]
#[should_panic(expected = "left")]
fn model_that_forgets_idle_slots_is_caught() {
    deferring(Variant::ForgetsIdleSlots);
}

#[test]
#[should_panic(expected = "no round will find")]
fn model_that_disarms_late_is_caught() {
    deferring(Variant::DisarmsLate);
}
