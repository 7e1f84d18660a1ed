//! The tests of caches, in every configuration of the engine below.

mod cache;
mod deferred;
#[path = "../../../sheaves-percpu/tests/transactions/dice.rs"]
mod dice;
#[path = "../../../sheaves-percpu/tests/transactions/configurations.rs"]
mod engines;
mod keeper;
mod samples;
mod storm;

use deferred::seccomp;

#[test]
fn in_every_configuration() {
    engines::run_all(4, false);
}
