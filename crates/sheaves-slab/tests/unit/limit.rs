//! Tests of private items of `space/limit`.

use super::*;

/// A thread that a fork leaves behind may have set the flag and not queued the head yet.
#[test]
fn a_child_queues_the_head_unless_it_is_queued() {
    IS_CALLED.store(true, Ordering::Relaxed);
    restart_in_child();
    assert!(!IS_CALLED.swap(true, Ordering::Relaxed));
    let guard = sheaves_rcu::read();
    // SAFETY: static, and not queued.
    unsafe { defer::call_rcu((&raw const HEAD).cast_mut(), call_later) };
    restart_in_child();
    assert!(IS_CALLED.load(Ordering::Relaxed), "it is queued");
    drop(guard);
    defer::barrier().unwrap();
    assert!(!IS_CALLED.load(Ordering::Relaxed), "it was called");
}
