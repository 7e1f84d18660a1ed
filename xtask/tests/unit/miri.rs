//! Tests of `src/miri.rs`.

use super::*;

#[test]
fn tests_that_passed_are_counted() {
    let text = "running 2 tests\n\ntest result: ok. 2 passed; 0 failed; 0 ignored\n\
                test result: ok. 3 passed; 0 failed\ntest result: FAILED. 4 passed; 1 failed\n";
    assert_eq!(passed_in(text), 5);
    assert_eq!(passed_in("test result: ok. 0 passed; 0 failed; 49 filtered out\n"), 0);
    assert_eq!(passed_in("error: could not compile"), 0);
}
