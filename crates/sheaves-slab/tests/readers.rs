//! Slabs of a type-stable cache that still have readers when another cache's frees find them empty.
//!
//! A process of its own: it counts its threads.

use core::alloc::Layout;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use sheaves_rcu::read;
use sheaves_slab::raw::{Cache, Options};

fn cache(name: &str, size: usize, typesafe_by_rcu: bool) -> Cache {
    let options = Options { typesafe_by_rcu, ..Options::default() };
    Cache::new(name, Layout::from_size_align(size, 8).unwrap(), options).unwrap()
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn frees_leave_the_start_of_the_thread_to_an_allocation() {
    const PERIOD: Duration = Duration::from_millis(10);
    sheaves_sys::options::DECAY_MS.set(2 * PERIOD.as_millis() as u64);
    let (stable, other) = (cache("stable", 1000, true), cache("other", 8000, false));
    // 24 MiB: with more unused an allocation starts the thread in any case.
    let others: Vec<_> = (0..3000).map(|_| other.alloc().unwrap()).collect();
    let guard = read();
    // Fewer than its depot holds: they come back to slabs in ticks, which are parts of frees here.
    let objects: Vec<_> = (0..400).map(|_| stable.alloc().unwrap()).collect();
    for object in objects {
        // SAFETY: from this cache, not used after.
        unsafe { stable.free(object) };
    }
    let (before, slabs) = (threads(), stable.stats().slabs);
    for (index, object) in others.into_iter().enumerate() {
        if index.is_multiple_of(100) {
            // Time in which memory lies unused.
            thread::sleep(PERIOD);
        }
        // SAFETY: as above.
        unsafe { other.free(object) };
    }
    assert_eq!(threads(), before, "a free has started a thread");
    let stats = stable.stats();
    assert_eq!((stats.slabs, stats.objects_in_depot), (slabs, 0), "no tick was through: {stats:?}");

    let object = cache("starts", 8, false).alloc();
    assert_eq!((object.is_some(), threads()), (true, before + 1));
    drop(guard);
    let begin = Instant::now();
    while stable.stats().slabs > 1 {
        assert!(begin.elapsed() < Duration::from_secs(60), "slabs stay: {:?}", stable.stats());
        thread::sleep(PERIOD);
    }
}
