//! The drain of all slots by another thread, as the module `slots` of `sheaves_percpu` does it.
//!
//! A section is an rseq critical section: it reads the base of its slot from the table, then the
//! cursor from that block, and commits by one store. The store happens only if nothing has aborted
//! the section since it began. Aborts are modelled by a counter for each CPU: a fence raises it,
//! and so does a section that gets the CPU. The comparison and the commit are one step (under the
//! CPU's mutex), as they are for the kernel.
//!
//! What must hold: each object is popped by one section or taken by the drain, never both and never
//! neither, and the slot works again afterwards.

use std::sync::Arc;
use std::vec::Vec;

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// Values of a word: the number of objects of its sheaf; 0 is empty or vacant.
const OBJECTS: usize = 2;
/// Entries of the table.
const BOOTSTRAP: usize = 0;
const BLOCK: usize = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Right,
    /// The words are taken without a fence.
    NoFence,
    /// The fence comes before the table is changed.
    FenceFirst,
    /// The block is back in the table before its words have been taken.
    RestoresFirst,
    /// Sections read the table with Relaxed: one that finds the restored block may then see the
    /// words as they were before the drain.
    RelaxedTable,
}

/// One slot, on one CPU.
struct Slot {
    table: AtomicUsize,
    /// The word of the slot's block; that of the bootstrap block is always empty.
    word: AtomicUsize,
    /// Number of aborted sections on this CPU.
    aborts: Mutex<usize>,
}

struct Model {
    variant: Variant,
    slots: Vec<Slot>,
}

/// Result of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The object of this number.
    Popped(usize),
    /// The sheaf was empty, or the block was the bootstrap block.
    Empty,
    /// It was aborted and must start over.
    Aborted,
}

impl Model {
    fn new(variant: Variant, slots: usize) -> Arc<Model> {
        let slot = |_| Slot {
            table: AtomicUsize::new(BLOCK),
            word: AtomicUsize::new(OBJECTS),
            aborts: Mutex::new(0),
        };
        Arc::new(Model { variant, slots: (0..slots).map(slot).collect() })
    }

    /// One attempt to pop.
    fn section(&self, slot: usize) -> Outcome {
        let slot = &self.slots[slot];
        let begun = {
            // A section that gets the CPU aborts the section that was there.
            let mut aborts = slot.aborts.lock().unwrap();
            *aborts += 1;
            *aborts
        };
        // Acquire: an ordinary load of x86-64. Pairs with the Release of the restored block.
        let is_relaxed = self.variant == Variant::RelaxedTable;
        let order = if is_relaxed { Ordering::Relaxed } else { Ordering::Acquire };
        let base = slot.table.load(order);
        let cursor = if base == BLOCK { slot.word.load(Ordering::Relaxed) } else { 0 };
        if cursor == 0 {
            return Outcome::Empty;
        }
        let aborts = slot.aborts.lock().unwrap();
        if *aborts != begun {
            return Outcome::Aborted;
        }
        slot.word.store(cursor - 1, Ordering::Relaxed);
        Outcome::Popped(cursor)
    }

    /// Pops until the section is not aborted; loom bounds the attempts.
    fn pop(&self, slot: usize) -> Option<usize> {
        loop {
            match self.section(slot) {
                Outcome::Popped(object) => return Some(object),
                Outcome::Empty => return None,
                Outcome::Aborted => thread::yield_now(),
            }
        }
    }

    /// `membarrier` with its rseq command: returns when every section that began before has
    /// committed or is aborted.
    fn fence(&self) {
        for slot in &self.slots {
            *slot.aborts.lock().unwrap() += 1;
        }
    }

    /// `slots::drain_fenced`; returns the objects that it took, by slot.
    fn drain(&self) -> Vec<usize> {
        if self.variant == Variant::FenceFirst {
            self.fence();
        }
        for slot in &self.slots {
            slot.table.store(BOOTSTRAP, Ordering::Release);
        }
        if !matches!(self.variant, Variant::NoFence | Variant::FenceFirst) {
            self.fence();
        }
        let mut taken = Vec::new();
        for slot in &self.slots {
            if self.variant == Variant::RestoresFirst {
                slot.table.store(BLOCK, Ordering::Release);
            }
            taken.push(slot.word.swap(0, Ordering::Relaxed));
            slot.table.store(BLOCK, Ordering::Release);
        }
        taken
    }
}

/// Checks that every object of a slot was popped, or taken by the drain from the bottom, exactly
/// once.
fn check(popped: &[usize], drained: usize, left: usize) {
    let mut all: Vec<usize> = popped.to_vec();
    all.extend(1..=drained);
    all.extend(1..=left);
    all.sort_unstable();
    let expected: Vec<usize> = (1..=OBJECTS).collect();
    assert_eq!(all, expected, "objects are lost or doubled");
}

/// A drain concurrent with one thread on each of two slots.
fn two_slots(variant: Variant) {
    loom::model(move || {
        let model = Model::new(variant, 2);
        let users: Vec<_> = (0..2)
            .map(|slot| {
                let model = Arc::clone(&model);
                thread::spawn(move || model.pop(slot))
            })
            .collect();
        let drained = model.drain();
        for (slot, user) in users.into_iter().enumerate() {
            let popped: Vec<usize> = user.join().unwrap().into_iter().collect();
            let left = model.slots[slot].word.load(Ordering::Relaxed);
            check(&popped, drained[slot], left);
            assert_eq!(model.slots[slot].table.load(Ordering::Relaxed), BLOCK);
        }
    });
}

/// A drain concurrent with two threads that share a slot.
fn one_slot(variant: Variant) {
    loom::model(move || {
        let model = Model::new(variant, 1);
        let users: [_; 2] = core::array::from_fn(|_| {
            let model = Arc::clone(&model);
            thread::spawn(move || match model.section(0) {
                Outcome::Popped(object) => Some(object),
                Outcome::Empty | Outcome::Aborted => None,
            })
        });
        let drained = model.drain();
        let popped: Vec<usize> =
            users.into_iter().filter_map(|user| user.join().unwrap()).collect();
        check(&popped, drained[0], model.slots[0].word.load(Ordering::Relaxed));
    });
}

#[test]
fn model_of_a_drain_of_two_slots() {
    two_slots(Variant::Right);
}

#[test]
fn model_of_a_drain_of_a_shared_slot() {
    one_slot(Variant::Right);
}

#[test]
#[should_panic(expected = "lost or doubled")]
fn model_without_a_fence_is_caught() {
    one_slot(Variant::NoFence);
}

#[test]
#[should_panic(expected = "lost or doubled")]
fn model_with_the_fence_first_is_caught() {
    one_slot(Variant::FenceFirst);
}

#[test]
#[should_panic(expected = "lost or doubled")]
fn model_that_restores_first_is_caught() {
    one_slot(Variant::RestoresFirst);
}

#[test]
#[should_panic(expected = "lost or doubled")]
fn model_that_reads_the_table_without_order_is_caught() {
    two_slots(Variant::RelaxedTable);
}
