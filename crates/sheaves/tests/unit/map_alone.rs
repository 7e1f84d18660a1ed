//! For tests that fork: a child of a bare clone is refused the heap if another test was using it.

extern crate std;

#[path = "../map/child.rs"]
pub(super) mod child;

use std::sync::{LockResult, Mutex, MutexGuard};

/// Until the result is dropped, no other such test runs.
pub(super) fn alone() -> LockResult<MutexGuard<'static, ()>> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock()
}
