//! Tests of `src/callback.rs`.

use super::*;

#[test]
fn waiters_are_released_and_readers_are_refused() {
    assert!(synchronize().is_ok());
    let _guard = sheaves_rcu::read();
    assert_eq!(synchronize(), Err(InsideReader));
    assert_eq!(crate::prototype::synchronize(), Err(InsideReader));
}
