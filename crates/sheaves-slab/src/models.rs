//! Models of the protocols: loom runs them through every order of their steps.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p sheaves-slab --release --lib model
//! ```
//!
//! Give it a target folder of its own (`CARGO_TARGET_DIR`), or everything is rebuilt each time. The
//! test `models` does that where `SHEAVES_MODELS=1` is set. Each protocol has variants with one
//! wrong step, and tests that loom finds the error.

mod counting;
mod drain;
mod stack;
