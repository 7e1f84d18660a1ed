//! In a sandbox a barrier also returns what threads have deferred whose slots it cannot reach, and
//! a cache that is destroyed leaves nothing there.
//!
//! The only test of its program, since a process cannot leave a sandbox.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::thread;

use sheaves_rcu::defer::{barrier, before_sandbox};
use sheaves_slab::raw::{Cache, Options};

const THREADS: usize = 4;
const OBJECTS: usize = 300;

#[test]
fn other_slots_are_not_reached_in_a_sandbox() {
    a_barrier_returns_what_threads_that_have_ended_have_deferred();
    for _ in 0..20 {
        a_number_is_used_again_without_sheaves();
    }
}

fn a_barrier_returns_what_threads_that_have_ended_have_deferred() {
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
    thread::scope(|scope| {
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

/// Objects that another thread frees.
struct Objects(Vec<NonNull<u8>>);

// SAFETY: objects may be freed by any thread.
unsafe impl Send for Objects {}

/// A thread leaves an empty sheaf in its slot, and another one destroys the cache. If that succeeds
/// the next cache has its number: a debug cache, for which no sheaf must be left.
fn a_number_is_used_again_without_sheaves() {
    let layout = Layout::new::<[u64; 6]>();
    let cache = Arc::new(Cache::new("before", layout, Options::default()).unwrap());
    let next = OnceLock::<Option<Cache>>::new();
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        let (cache_of_thread, next) = (cache.clone(), &next);
        scope.spawn(move || {
            let mut objects = vec![cache_of_thread.alloc().unwrap()];
            while cache_of_thread.stats().objects_in_slots != 0 {
                objects.push(cache_of_thread.alloc().unwrap());
            }
            drop(cache_of_thread);
            sender.send(Objects(objects)).unwrap();
            // It runs on, so that the other thread has another slot.
            while next.get().is_none() {
                core::hint::spin_loop();
            }
            if let Some(Some(next)) = next.get() {
                let object = next.alloc().unwrap();
                // SAFETY: from this cache, not used after.
                unsafe { next.free(object) };
            }
        });
        for object in receiver.recv().unwrap().0 {
            // SAFETY: from this cache, not used after.
            unsafe { cache.free(object) };
        }
        let is_gone = Arc::into_inner(cache).unwrap().destroy().is_ok();
        let options = Options { debug: true, ..Options::default() };
        let _set = next.set(is_gone.then(|| Cache::new("after", layout, options).unwrap()));
    });
    if let Some(Some(next)) = next.get() {
        assert_eq!(next.stats().objects_in_slots, 0, "a free was not checked");
    }
}
