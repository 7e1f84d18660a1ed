//! Threads that start, defer a little, and end.

use core::sync::atomic::Ordering;
use std::thread;

use sheaves::heap::report::totals;
use sheaves::rcu::defer::barrier;

use crate::{FREED, PATHS, assert_nothing_is_left, cache, defer_on, in_own_processes};

const THREADS: usize = 10_000;
/// Threads that run at a time.
const AT_A_TIME: usize = 8;

#[test]
fn ten_thousand_threads_leave_nothing() {
    if in_own_processes("threads::ten_thousand_threads_leave_nothing", &[]) {
        return;
    }
    let used_bytes = totals().used_bytes;
    let cache = cache();
    let mut expected = 0;
    for round in 0..THREADS / AT_A_TIME {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..AT_A_TIME)
                .map(|number| {
                    let cache = &cache;
                    let count = 1 + (round + number) % 7;
                    scope.spawn(move || {
                        (0..count)
                            .map(|object| defer_on((object + number) % PATHS, cache))
                            .sum::<u64>()
                    })
                })
                .collect();
            let sums = threads.into_iter().map(|thread| thread.join().unwrap());
            expected += sums.sum::<u64>();
        });
    }
    barrier().unwrap();
    assert_eq!(FREED.load(Ordering::SeqCst), expected);
    assert_nothing_is_left();
    cache.destroy().expect("nothing is out");
    assert_eq!(totals().used_bytes, used_bytes);
}
