//! Tests of `src/doctor/report.rs`.

use super::*;

fn report() -> Report {
    Report::new(vec![
        Check::ok("kernel", "Linux 6.18"),
        Check::warn("mm_cid", "unavailable", "use Linux 6.3 or newer"),
    ])
}

#[test]
fn table_puts_advice_below_the_finding() {
    insta::assert_snapshot!(report().table(), @r"
    OK    kernel  Linux 6.18
    WARN  mm_cid  unavailable
                  -> use Linux 6.3 or newer
    ");
}

#[test]
fn worst_status_is_that_of_the_report() {
    assert!(!report().failed());
    let mut checks = report().checks;
    checks.push(Check::fail("preload", "not found", "build it"));
    assert!(Report::new(checks).failed());
    assert!(!Report::new(Vec::new()).failed());
}
