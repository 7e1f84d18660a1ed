//! Forks beside threads that are anywhere in a cache's slow paths: the child goes on with all of it.

use core::alloc::Layout;
use core::panic::AssertUnwindSafe;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use sheaves_slab::raw::{Cache, Options};

/// A child that takes longer hangs.
const CHILD_LIMIT: Duration = Duration::from_secs(5);
const THREADS: usize = 3;

/// One test at a time: each forks.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forks, and waits for the child, which runs `body`. It is killed after `limit`; false, with what
/// became of it, unless `body` returned true.
fn in_child(limit: Duration, body: impl FnOnce() -> bool) -> Result<(), String> {
    // SAFETY: the child uses caches, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_right = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends the child without the harness of the tests.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    assert!(child > 0, "no fork");
    let until = Instant::now() + limit;
    let mut status = 0;
    // SAFETY: our own child, and a place for its status.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if Instant::now() > until {
            // SAFETY: our own child, which is not waited for yet.
            unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: as above; it is about to end.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            return Err(format!("the child hung for {limit:?}"));
        }
        thread::sleep(Duration::from_micros(200));
    }
    if status == 0 { Ok(()) } else { Err(format!("the child ended with status {status:#x}")) }
}

fn cache(name: &str, size: usize, options: Options) -> Cache {
    Cache::new(name, Layout::from_size_align(size, 8).unwrap(), options).unwrap()
}

/// The child's own handle of a cache that the parent has borrowed to threads.
///
/// # Safety
/// Only the one result is used from now on, and nobody destroys the cache by another.
unsafe fn own(cache: &Cache) -> Cache {
    // SAFETY: a handle is plain words; by the contract there is one user.
    unsafe { core::ptr::from_ref(cache).read() }
}

fn take(cache: &Cache, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| cache.alloc().expect("memory")).collect()
}

fn give(cache: &Cache, objects: &[NonNull<u8>]) {
    for object in objects {
        // SAFETY: from this cache, not used after.
        unsafe { cache.free(*object) };
    }
}

/// Threads run `work` until this ends; `parent` runs beside them.
fn beside(work: impl Fn() + Sync, parent: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            // Relaxed: a flag, also when the parent panics.
            self.0.store(true, Ordering::Relaxed);
        }
    }
    thread::scope(|scope| {
        let _over = Over(&is_over);
        for _ in 0..THREADS {
            // Relaxed: a flag.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    work();
                }
            });
        }
        parent();
    });
}

/// In a checked cache every free goes to a slab, which here becomes full, or empty, and then is not
/// for a moment, all the time: `held` of its 640 objects are out beside those of the threads.
fn destroy_in_children(held: usize) {
    let _alone = alone();
    let checked = Options { debug: true, ..Options::default() };
    for _ in 0..12 {
        let cache = cache("listed", 64, checked);
        let held = take(&cache, held);
        let child = || {
            give(&cache, &held);
            // SAFETY: the threads are not there.
            match unsafe { own(&cache) }.destroy() {
                Ok(()) => true,
                // What the threads had in their hands is out for ever.
                Err(error) => error.objects_out <= THREADS,
            }
        };
        let mut result = Ok(());
        beside(
            || give(&cache, &take(&cache, 1)),
            || {
                thread::sleep(Duration::from_millis(1));
                result = (0..5).try_for_each(|_| in_child(CHILD_LIMIT, child));
            },
        );
        result.unwrap();
        give(&cache, &held);
        cache.destroy().unwrap();
    }
}

#[test]
fn a_child_destroys_a_cache_with_a_slab_that_was_about_to_be_empty() {
    destroy_in_children(0);
}

#[test]
fn a_child_destroys_a_cache_with_a_slab_that_was_full_of_used_objects() {
    destroy_in_children(640 - THREADS);
}
