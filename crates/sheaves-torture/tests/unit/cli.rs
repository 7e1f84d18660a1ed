//! Tests of private items of `cli`.

use super::status;

#[test]
fn run_that_missed_an_event_is_incomplete_and_not_failed() {
    let one = ["a line".to_owned()];
    assert_eq!(status(&[], &[]), 0);
    assert_eq!(status(&[], &one), 3);
    assert_eq!(status(&one, &[]), 1);
    assert_eq!(status(&one, &one), 1);
}
