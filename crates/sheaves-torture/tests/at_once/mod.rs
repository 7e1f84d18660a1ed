//! Runs a test in many configurations at a time: with that many threads each is preempted at any
//! instruction. And how long, and one after the other.

use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::configurations::{self, Configuration};

/// The test that compares what is in effect with what was asked for.
const IN_EFFECT: &str = "configurations::what_was_asked_for_is_in_effect";

/// One run at a time: several would compete for the CPUs, and two threads would seldom run at the
/// same moment.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a run without errors takes.
pub(crate) fn seconds() -> u64 {
    let asked = std::env::var("SHEAVES_TORTURE_SECONDS");
    asked.map_or(20, |value| value.parse().expect("a number of seconds"))
}

/// Runs a test of this program in processes of their own; panics if one fails.
pub(crate) fn run(test: &str, configurations: Vec<Configuration>) {
    let children: Vec<_> = configurations
        .iter()
        .map(|configuration| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", IN_EFFECT, test, "--nocapture", "--include-ignored"]);
            command.arg("--test-threads=1");
            configurations::configure(&mut command, configuration);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
        })
        .collect();
    let mut failed = Vec::new();
    for (child, configuration) in children.into_iter().zip(configurations) {
        let output = child.and_then(std::process::Child::wait_with_output);
        if configurations::finish(&configuration.name, output, 2) == Some(false) {
            failed.push(configuration.name);
        }
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}

/// A configuration with one more option.
pub(crate) fn with(
    mut configuration: Configuration,
    name: &'static str,
    value: &'static str,
) -> Configuration {
    configuration.name = format!("{}, {name}={value}", configuration.name);
    configuration.variables.push((name, value));
    configuration
}
