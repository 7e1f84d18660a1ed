//! Models of the protocols, run by loom through every order of their steps.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p sheaves-rcu --release --lib model
//! ```
//!
//! Give it a target folder of its own (`CARGO_TARGET_DIR`), or everything is built anew each time.
//! The test `models` does that where `SHEAVES_MODELS=1` is set. Each protocol has variants that are
//! wrong in one step, and tests that the checker finds it out.

mod defer;
mod fences;
mod grace;
mod membarrier;
mod owner;
mod srcu;
mod waiters;

use std::sync::Arc;
use std::vec::Vec;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::generation::Sleep;

/// Runs a model through every order of its steps that has at most `bound` preemptions.
fn check(bound: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.check(model);
}

/// Things, of which one is linked. What must hold: nobody is at one that ends.
struct Things<const N: usize> {
    linked: AtomicUsize,
    things: [UnsafeCell<usize>; N],
}

// SAFETY: whether things are used one at a time is what the models are about.
unsafe impl<const N: usize> Sync for Things<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Send for Things<N> {}

impl<const N: usize> Things<N> {
    fn new() -> Things<N> {
        Things { linked: AtomicUsize::new(0), things: core::array::from_fn(|_| UnsafeCell::new(1)) }
    }

    /// Which one is linked.
    fn find(&self, order: Ordering) -> usize {
        self.linked.load(order)
    }

    /// Links another one: who looks from now on finds that.
    fn link(&self, number: usize) {
        self.linked.store(number, Ordering::Release);
    }

    /// What a reader does in a section in which it has found the thing.
    fn read(&self, number: usize) {
        // SAFETY: linked when the section began; where that is wrong, loom or the value tells.
        let value = self.things[number].with(|thing| unsafe { *thing });
        assert_eq!(value, 1, "a reader has a thing that has ended");
    }

    /// What an updater does when all readers are gone that may have it.
    fn end(&self, number: usize) {
        // SAFETY: nobody has it any more; where that is wrong, loom tells.
        self.things[number].with_mut(|thing| unsafe { *thing = 0 });
    }
}

/// Nobody sleeps, and nobody is woken.
struct Deaf;

impl Sleep for Deaf {
    fn wait(&self, _: &AtomicU32, _: u32) {}
    fn wake_one(&self, _: &AtomicU32) -> bool {
        false
    }
    fn wake_all(&self, _: &AtomicU32) {}
}

/// Runs the others, each in a thread, beside `own`. Returns when all have ended.
fn beside<M, F>(model: &Arc<M>, others: impl IntoIterator<Item = F>, own: impl FnOnce(&M))
where
    M: Send + Sync + 'static,
    F: FnOnce(&M) + Send + 'static,
{
    let spawn = |body: F| {
        let model = Arc::clone(model);
        loom::thread::spawn(move || body(&model))
    };
    let others: Vec<_> = others.into_iter().map(spawn).collect();
    own(model);
    others.into_iter().for_each(|other| other.join().unwrap());
}
