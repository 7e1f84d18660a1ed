//! Slabs of a type-stable cache that have readers at a shrink are released after them.
//!
//! A process of its own: where other tests defer or free, the library's thread comes in any case.

use core::alloc::Layout;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use sheaves_slab::raw::{Cache, Options};

/// Much more than the bound on the age of what is deferred.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn slabs_that_had_readers_at_a_shrink_go_after_them() {
    let options = Options { typesafe_by_rcu: true, ..Options::default() };
    let cache = Cache::new("shrunk", Layout::new::<[u64; 125]>(), options).unwrap();
    // Fewer than slots and depot hold: the shrink is what returns them to slabs.
    let objects: Vec<_> = (0..400).map(|_| cache.alloc().unwrap()).collect();
    let slabs = cache.stats().slabs;
    let guard = sheaves_rcu::read();
    for object in objects {
        // SAFETY: from this cache, not used after.
        unsafe { cache.free(object) };
    }
    assert!(cache.shrink(), "a slot was not drained");
    assert_eq!(cache.stats().slabs, slabs);
    drop(guard);
    let begin = Instant::now();
    // The cache keeps one.
    while cache.stats().slabs > 1 {
        assert!(begin.elapsed() < PATIENCE, "{:?}", cache.stats());
        thread::sleep(Duration::from_millis(10));
    }
    cache.destroy().unwrap();
}
