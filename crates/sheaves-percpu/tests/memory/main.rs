//! Tests of per-CPU memory and the types built on it, on the engine that the environment chose.
//!
//! `engines` runs this whole program again for every other engine and kind of slot, so no test here
//! may assume one. Option: `SHEAVES_STORM_SECONDS`, the duration of storms (default 2).

mod bad_input;
mod counters;
#[path = "../transactions/dice.rs"]
mod dice;
#[path = "../transactions/configurations.rs"]
mod engines;
mod forks;
mod kills;
mod limits;
mod mappings;
mod objects;
#[path = "../transactions/own_process.rs"]
mod own_process;
mod pages;
mod resident;
#[path = "../transactions/seccomp.rs"]
mod seccomp;
mod slotless;
#[cfg(target_arch = "x86_64")]
#[path = "../../../sheaves-rcu/tests/handlers/steps.rs"]
mod steps;
mod storm;
mod values;

use core::time::Duration;
use std::process::Output;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dice::Dice;

/// The other engines and kinds of slots; each runs all other tests of this program.
#[test]
fn in_every_configuration() {
    engines::run_all(2, true);
}

/// One test at a time, for tests that measure the memory of the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Duration of a storm.
fn storm_duration() -> Duration {
    let asked = std::env::var("SHEAVES_STORM_SECONDS").ok();
    let seconds = asked.map_or(2.0, |text| text.parse().expect("a number of seconds"));
    Duration::from_secs_f64(seconds)
}

/// Set in the process that [`in_process`] starts.
const PROCESS: &str = "SHEAVES_TEST_PROCESS";

/// True in the process that [`in_process`] started for a test.
fn is_process_for(test: &str) -> bool {
    std::env::var(PROCESS).is_ok_and(|found| found == test)
}

/// Runs one test of this program in a separate process and panics when it fails.
fn in_process(test: &str, variables: &[(&str, &str)]) -> Output {
    own_process::pass(test, &[&[(PROCESS, test)], variables].concat())
}

/// [`in_process`] for a test that chooses its configuration itself: it runs once, and not again in
/// every other configuration.
fn in_own_configuration(test: &str, variables: &[(&str, &str)]) -> Option<Output> {
    let is_repetition = std::env::var_os(engines::EXPECT).is_some();
    (!is_repetition).then(|| in_process(test, variables))
}

impl Dice {
    /// A random element of `numbers`.
    fn pick(&mut self, numbers: &[usize]) -> usize {
        numbers[self.throw(numbers.len())]
    }
}
