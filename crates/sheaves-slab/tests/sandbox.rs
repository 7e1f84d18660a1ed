//! In a sandbox a barrier also returns what threads have deferred whose slots it cannot reach.
//!
//! The only test of its program, since a process cannot leave a sandbox.

use core::alloc::Layout;
use std::sync::Barrier;

use sheaves_rcu::defer::{barrier, before_sandbox};
use sheaves_slab::raw::{Cache, Options};

const THREADS: usize = 4;
const OBJECTS: usize = 300;

#[test]
fn a_barrier_in_a_sandbox_returns_what_threads_that_have_ended_have_deferred() {
    let cache = Cache::new("sandbox", Layout::new::<[u64; 6]>(), Options::default()).unwrap();
    let defer_some = || {
        for _ in 0..OBJECTS {
            let object = cache.alloc().unwrap();
            // SAFETY: from this cache; no reader uses it.
            unsafe { cache.free_rcu(object) };
        }
    };
    defer_some();
    before_sandbox();
    // All at the same time, so that they have different slots.
    let all = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                all.wait();
                defer_some();
                all.wait();
            });
        }
    });
    barrier().unwrap();
    assert_eq!(cache.stats().objects_deferred, 0);
    assert_eq!(cache.stats().objects_out, 0);
}
