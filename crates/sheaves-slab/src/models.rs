//! Models of the protocols, run by loom through every order of their steps.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p sheaves-slab --release --lib model
//! ```
//!
//! Give it a target folder of its own (`CARGO_TARGET_DIR`), or everything is built anew each time.
//! The test `models` does that where `SHEAVES_MODELS=1` is set. Each protocol has variants that are
//! wrong in one step, and tests that the checker finds it out.

mod counting;
mod drain;
mod stack;
