//! Free memory returns to the kernel by itself, with the first free of a slab after that is due.
//!
//! A process of its own: it checks the memory of the whole heap.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::time::Duration;
use std::thread;

use sheaves_slab::internal::chunk;
use sheaves_slab::raw::{Cache, Options};

/// A little more than a tick of the heap.
const TICK: Duration = Duration::from_millis(530);
const OBJECT_BYTES: usize = 64 << 10;

fn cache(options: Options) -> Cache {
    Cache::new("discard", Layout::from_size_align(OBJECT_BYTES, 64).unwrap(), options).unwrap()
}

fn take(cache: &Cache, count: usize) -> Vec<NonNull<u8>> {
    let object = || {
        let object = cache.alloc().expect("memory");
        // SAFETY: ours.
        unsafe { object.write(1) };
        object
    };
    (0..count).map(|_| object()).collect()
}

fn give(cache: &Cache, objects: &[NonNull<u8>]) {
    for object in objects {
        // SAFETY: from this cache, not used after.
        unsafe { cache.free(*object) };
    }
}

/// Allocates 32 MiB and frees them, of which a part stays.
fn leave_memory() {
    let cache = cache(Options::default());
    give(&cache, &take(&cache, 512));
    cache.destroy().unwrap();
    assert!(chunk::footprint().dirty_bytes > 4 << 20, "{:?}", chunk::footprint());
}

/// A free that releases a slab: a cache of large objects that is used rarely has no sheaves.
fn by_a_free() {
    let cache = cache(Options::default());
    give(&cache, &take(&cache, 24));
}

fn by_a_shrink() {
    let cache = cache(Options::default());
    give(&cache, &take(&cache, 8));
    cache.shrink();
}

fn by_a_destroy() {
    let cache = cache(Options::default());
    give(&cache, &take(&cache, 8));
    cache.destroy().unwrap();
}

#[test]
fn what_was_freed_two_ticks_ago_is_given_back() {
    for ways in [[by_a_free, by_a_shrink], [by_a_destroy, by_a_free], [by_a_shrink, by_a_destroy]] {
        leave_memory();
        for free_a_slab in ways {
            thread::sleep(TICK);
            // Each free that takes a slow path discards a mebibyte at most.
            (0..4).for_each(|_| free_a_slab());
        }
        let dirty_bytes = chunk::footprint().dirty_bytes;
        assert!(dirty_bytes <= 4 << 20, "{dirty_bytes} bytes were not given back");
    }
}
