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
mod srcu;
mod turns;
mod waiters;

use std::sync::Arc;
use std::vec::Vec;

use loom::sync::atomic::AtomicU32;

use crate::generation::Sleep;

/// Runs a model through every order of its steps that has at most `bound` preemptions.
fn check(bound: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    builder.check(model);
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
