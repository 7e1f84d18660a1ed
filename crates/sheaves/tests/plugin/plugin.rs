//! A plugin that uses the library: a shared object for `tests/plugin/host.c`.
//!
//! It uses nothing of the standard library that keeps an object loaded, such as a thread-local with
//! a destructor.

use core::sync::atomic::{AtomicUsize, Ordering};

use sheaves::{Cache, Counter, rcu};

static CALLED: AtomicUsize = AtomicUsize::new(0);
static WORKED: Counter = Counter::new();

/// Defers, reads, counts, and uses a cache. Does not wait for what it defers.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_work() {
    let cache = Cache::<[u64; 4]>::new("plugin").expect("a cache");
    for number in 0..500 {
        let object = cache.insert([number; 4]);
        let _reader = rcu::read();
        assert_eq!(*object, [number; 4]);
        WORKED.add(1);
        rcu::defer(|| {
            CALLED.fetch_add(1, Ordering::Relaxed);
        });
    }
}

/// Number of deferred calls that were made so far.
#[unsafe(no_mangle)]
pub extern "C" fn plugin_called() -> usize {
    CALLED.load(Ordering::Relaxed)
}
