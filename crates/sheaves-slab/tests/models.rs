//! Runs the models of the protocols, where `SHEAVES_MODELS=1` asks for it. By hand:
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p sheaves-slab --release --test protocols
//! ```

#[path = "../../sheaves-rcu/tests/models/run.rs"]
mod run;

#[test]
fn models_hold_and_their_broken_variants_are_caught() {
    run::run(env!("CARGO_PKG_NAME"), &["--test", "protocols"], 10, 21);
}
