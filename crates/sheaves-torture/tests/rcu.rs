//! Runs of `sheaves torture rcu`: for 20 seconds in every configuration, and with intended errors,
//! which must be detected. `SHEAVES_TORTURE_SECONDS` replaces the 20 seconds.

use core::time::Duration;

use sheaves_torture::rcu::{Broken, Options, Report, run};

mod at_once;
#[expect(dead_code, reason = "shared with other test programs, which use all of it")]
#[path = "../../sheaves-rcu/tests/configurations/mod.rs"]
mod configurations;

use at_once::{alone, seconds};
use configurations::in_own_process;

/// An error must be detected in this time. Most are detected in seconds.
const BROKEN_SECONDS: u64 = 150;

fn torture(seconds: u64, broken: Option<Broken>, leak: bool) -> Report {
    let report = run(&Options { duration: Duration::from_secs(seconds), broken, leak }).unwrap();
    println!("{report}");
    report.failures.iter().for_each(|failure| println!("FAILED: {failure}"));
    report.missed.iter().for_each(|event| println!("INCOMPLETE: {event}"));
    report
}

#[test]
#[ignore = "runs in every configuration below"]
fn no_reader_outlasts_a_grace_period() {
    let report = torture(seconds(), None, true);
    assert!(report.passed() && report.oldest <= report.oldest_allowed);
    // Everything has taken part: the pipelines have turned over many times.
    assert!(report.updates.values().all(|updates| *updates > 100));
    assert!(report.leak.is_some_and(|leak| leak.reported_ms.is_some()));
}

#[test]
fn in_every_configuration() {
    let _alone = alone();
    let mut configurations = configurations::all();
    for (policy, configuration) in ["normal", "expedited"].iter().zip(configurations.clone()) {
        configurations.push(at_once::with(configuration, "SHEAVES_RCU", policy));
    }
    at_once::run("no_reader_outlasts_a_grace_period", configurations);
}

/// Checks that a reader detects the error by a structure that is too old.
fn is_found(name: &str, broken: Broken) {
    let _alone = alone();
    if in_own_process(name) {
        return;
    }
    let report = torture(BROKEN_SECONDS, Some(broken), false);
    assert!(!report.passed() && report.oldest > report.oldest_allowed, "{broken:?} is not found");
}

#[test]
fn broken_wake_up_as_published_is_found() {
    is_found("broken_wake_up_as_published_is_found", Broken::Published);
}

#[test]
fn broken_membarrier_is_found() {
    // With fences in readers no membarrier can be missing.
    if std::env::var_os("SHEAVES_RCU_FENCES").is_none() {
        is_found("broken_membarrier_is_found", Broken::Membarrier);
    }
}
