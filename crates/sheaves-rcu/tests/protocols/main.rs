//! Models of the protocols: loom runs the files of `src/protocol/` in every order of their steps.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p sheaves-rcu --release --test protocols
//! ```
//!
//! Give it a target folder of its own (`CARGO_TARGET_DIR`), otherwise everything is rebuilt each
//! time. The test `models` does so if `SHEAVES_MODELS=1` is set. Each protocol has variants that
//! are wrong in one step, with tests that loom catches them.
#![cfg(loom)]

mod defer;
mod fences;
mod grace;
mod membarrier;
mod owner;
mod protocol;
mod srcu;
mod waiters;

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use protocol::generation::Sleep;

/// Runs a model in every order of its steps with at most `bound` preemptions.
fn check(bound: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.check(model);
}

/// Objects, one of which is linked. The property: no reader uses an object that has ended.
struct Things<const N: usize> {
    linked: AtomicUsize,
    things: [UnsafeCell<usize>; N],
}

// SAFETY: the models check whether objects are used by one thread at a time.
unsafe impl<const N: usize> Sync for Things<N> {}
// SAFETY: as above.
unsafe impl<const N: usize> Send for Things<N> {}

impl<const N: usize> Things<N> {
    fn new() -> Things<N> {
        Things { linked: AtomicUsize::new(0), things: core::array::from_fn(|_| UnsafeCell::new(1)) }
    }

    /// The number of the object that is linked.
    fn find(&self, order: Ordering) -> usize {
        self.linked.load(order)
    }

    /// Links another object: later lookups find that one.
    fn link(&self, number: usize) {
        self.linked.store(number, Ordering::Release);
    }

    /// Reads, as a reader does in the section in which it has found the object.
    fn read(&self, number: usize) {
        // SAFETY: linked when the section began; if this is wrong, loom or the value detects it.
        let value = self.things[number].with(|thing| unsafe { *thing });
        assert_eq!(value, 1, "a reader has a thing that has ended");
    }

    /// Ends an object, as an updater does after a grace period.
    fn end(&self, number: usize) {
        // SAFETY: no reader uses it any more; if this is wrong, loom detects it.
        self.things[number].with_mut(|thing| unsafe { *thing = 0 });
    }
}

/// No waiter sleeps, so none is woken.
struct Deaf;

impl Sleep for Deaf {
    fn wait(&self, _: &AtomicU32, _: u32) {}
    fn wake_one(&self, _: &AtomicU32) -> bool {
        false
    }
    fn wake_all(&self, _: &AtomicU32) {}
}

/// Runs each of the others in a thread, beside `own`. Returns when all have ended.
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
