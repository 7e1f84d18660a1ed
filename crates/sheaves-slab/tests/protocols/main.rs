//! Models of the protocols: loom runs the files of `src/protocol/` in every order of their steps.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p sheaves-slab --release --test protocols
//! ```
//!
//! Give it a target folder of its own (`CARGO_TARGET_DIR`), or everything is rebuilt each time. The
//! test `models` does that where `SHEAVES_MODELS=1` is set. Each protocol has variants with one
//! wrong step, and tests that loom finds the error.
#![cfg(loom)]

mod chains;
mod counting;
mod drain;
mod stack;
mod words;

/// The protocols, with the atomics of the model checker.
#[path = "../../src/protocol"]
mod protocol {
    use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};

    pub(crate) mod counting;
    pub(crate) mod stack;

    impl<const TAGGED: bool> stack::Stack<TAGGED> {
        pub(crate) fn new() -> stack::Stack<TAGGED> {
            stack::Stack { head: AtomicU64::new(0) }
        }
    }
}
