//! Runs the models of the protocols, where `SHEAVES_MODELS=1` asks for it.
//!
//! They need a build of their own, with the model checker's atomics. By hand:
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test -p sheaves-rcu --release --lib model
//! ```

use std::path::Path;
use std::process::Command;

#[test]
fn models_hold_and_their_broken_variants_are_caught() {
    if std::env::var("SHEAVES_MODELS").is_ok_and(|value| value == "1") {
        run();
    } else {
        println!("SHEAVES_MODELS=1 is not set: the models were not run");
    }
}

fn run() {
    // Beside this program: .../target/PROFILE/deps/models-*.
    let program = std::env::current_exe().unwrap();
    let target = program.ancestors().nth(3).unwrap().join("loom");
    let output = Command::new(env!("CARGO"))
        .args(["test", "-p", "sheaves-rcu", "--release", "--lib", "model"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .env("CARGO_TARGET_DIR", target)
        .env("RUSTFLAGS", "--cfg loom")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let passed = text.lines().filter(|line| line.ends_with("... ok")).count();
    let caught = text.lines().filter(|line| line.ends_with("should panic ... ok")).count();
    // A filter that finds nothing would pass as well.
    assert!(passed - caught >= 11 && caught >= 17, "too few models ran:\n{text}");
}
