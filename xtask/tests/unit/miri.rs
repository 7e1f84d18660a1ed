//! Tests of `src/miri.rs`.

use super::*;

#[test]
fn unsupported_operation_is_not_a_failure() {
    let text = "running 1 test\nerror: unsupported operation: no `membarrier` here\n";
    let why = "error: unsupported operation: no `membarrier` here";
    assert_eq!(verdict(false, text), Verdict::Unsupported(why));
    assert_eq!(verdict(true, text), Verdict::Passed);
    assert_eq!(verdict(false, "error: Undefined Behavior: dangling"), Verdict::Failed);
    assert_eq!(verdict(false, "error: could not compile"), Verdict::Failed);
    let both = format!("{text}thread 'main' panicked at src/lib.rs");
    assert_eq!(verdict(false, &both), Verdict::Failed);
}
