//! Tests of `src/pthread.rs`.

use super::*;

#[test]
fn one_thread_at_a_time() {
    let count = Mutex::new(0_usize);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| *count.lock() += 1));
        }
    });
    assert_eq!(*count.lock(), 40_000);
}
