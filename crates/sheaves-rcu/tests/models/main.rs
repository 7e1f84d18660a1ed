//! Runs the models of the protocols if `SHEAVES_MODELS=1` is set. By hand:
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p sheaves-rcu --release --test protocols
//! ```

mod run;

#[test]
fn models_hold_and_their_broken_variants_are_caught() {
    run::run(env!("CARGO_PKG_NAME"), &["--test", "protocols"], 11, 13);
}
