//! Runs of `sheaves torture reclaim`: in every configuration, and with intended errors, which must
//! be detected. `SHEAVES_TORTURE_SECONDS` replaces the 20 seconds.

use core::time::Duration;

use sheaves_torture::reclaim::{Broken, Options, Report, run};

mod at_once;
#[expect(dead_code, reason = "shared with other test programs, which use all of it")]
#[path = "../../sheaves-rcu/tests/configurations/mod.rs"]
mod configurations;

use at_once::{alone, seconds};
use configurations::in_own_process;

/// An error that readers see must be detected in this time. It takes moments.
const BROKEN_SECONDS: u64 = 60;
/// Duration of a run whose error shows at its end.
const LOST_SECONDS: u64 = 2;

/// One of this many requests for memory fails.
const FAIL_ONE_IN: &str = "SHEAVES_TORTURE_FAIL_ONE_IN";

fn torture(seconds: u64, broken: Option<Broken>) -> Report {
    let duration = Duration::from_secs(seconds);
    let fail_one_in = std::env::var(FAIL_ONE_IN).map_or(1000, |value| value.parse().unwrap());
    let report = run(&Options { duration, broken, fail_one_in }).unwrap();
    println!("{report}");
    report.failures.iter().for_each(|failure| println!("FAILED: {failure}"));
    report.missed.iter().for_each(|event| println!("INCOMPLETE: {event}"));
    report
}

#[test]
#[ignore = "runs in every configuration below"]
fn everything_is_freed_once_and_in_time() {
    let report = torture(seconds(), None);
    assert!(report.passed());
    // Requests for memory have failed, too.
    assert!(report.emergencies.values().sum::<u64>() > 0);
}

#[test]
fn in_every_configuration() {
    let _alone = alone();
    let mut configurations = configurations::all();
    let options = [
        ("SHEAVES_DEBUG", "1"),
        ("SHEAVES_RCU_RECLAIMERS", "0"),
        ("SHEAVES_RCU_RECLAIMERS", "slots"),
        ("SHEAVES_SLOTS", "2"),
        // Most objects are deferred by the fallbacks of emergencies then.
        (FAIL_ONE_IN, "2"),
    ];
    for (name, value) in options {
        // Only the portable engine lets the number of slots be chosen.
        let is_portable = name == "SHEAVES_SLOTS";
        let like = if is_portable { configurations[6].clone() } else { configurations[0].clone() };
        configurations.push(at_once::with(like, name, value));
    }
    at_once::run("everything_is_freed_once_and_in_time", configurations);
}

/// Checks that the error is detected; one of the lines says so in these words.
fn is_found(name: &str, broken: Broken, seconds: u64, words: &str) {
    let _alone = alone();
    if in_own_process(name) {
        return;
    }
    let report = torture(seconds, Some(broken));
    let found = report.failures.iter().any(|failure| failure.contains(words));
    assert!(found, "{broken:?} is not found");
}

#[test]
fn broken_batch_with_a_cookie_at_push_is_found() {
    let name = "broken_batch_with_a_cookie_at_push_is_found";
    is_found(name, Broken::CookieAtPush, BROKEN_SECONDS, "objects changed under a reader");
}

#[test]
fn broken_batch_that_grows_while_it_waits_is_found() {
    let name = "broken_batch_that_grows_while_it_waits_is_found";
    is_found(name, Broken::Attaches, BROKEN_SECONDS, "objects changed under a reader");
}

#[test]
fn broken_barrier_that_forgets_what_is_partial_is_found() {
    let name = "broken_barrier_that_forgets_what_is_partial_is_found";
    is_found(name, Broken::Barrier, BROKEN_SECONDS, "a barrier (Ok(())) has left");
}

#[test]
fn broken_block_that_loses_an_object_is_found() {
    let name = "broken_block_that_loses_an_object_is_found";
    is_found(name, Broken::OffByOne, LOST_SECONDS, "objects are still out");
}
