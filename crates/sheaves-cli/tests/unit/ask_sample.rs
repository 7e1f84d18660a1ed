//! Tests of `src/ask/sample.rs`.

use super::*;

/// A sample of process 7, which has run for so long.
fn of_age(uptime_ms: u64) -> Sample {
    Sample {
        process: Process {
            pid: 7,
            own_number: 7,
            name: String::new(),
            users: Vec::new(),
            object: None,
        },
        name: String::new(),
        object: None,
        resident_bytes: 0,
        statistics: Statistics { uptime_ms, ..Statistics::default() },
        rcu: Rcu::default(),
    }
}

#[test]
fn a_rate_is_not_taken_against_a_process_that_had_the_number_before() {
    let before = [of_age(10_000)];
    let rate = |now: &Sample| now.rate(now.among(&before), |sample| sample.statistics.uptime_ms);
    // Since the earlier sample.
    assert_eq!(rate(&of_age(11_000)), 1000.0);
    // Since its own start.
    assert_eq!(rate(&of_age(500)), 1000.0);
}
