//! Tests of deferred objects: none returns while a reader may use it, and each returns once.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};
use core::time::Duration;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use sheaves_rcu::{read, synchronize};
use sheaves_slab::raw::{Cache, Options};

use crate::engines;

#[path = "../../../sheaves-percpu/tests/transactions/seccomp.rs"]
pub(crate) mod seccomp;

const WORDS: usize = 6;

fn cache(name: &str, options: Options) -> Cache {
    Cache::new(name, Layout::new::<[u64; WORDS]>(), options).unwrap()
}

/// Emergencies and grace periods concern the whole process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn take(cache: &Cache, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| cache.alloc().unwrap()).collect()
}

fn defer(cache: &Cache, objects: &[NonNull<u8>]) {
    for object in objects {
        // SAFETY: from this cache; only readers still use it.
        unsafe { cache.free_rcu(*object) };
    }
}

fn give(cache: &Cache, objects: &[NonNull<u8>]) {
    for object in objects {
        // SAFETY: from this cache, not used after.
        unsafe { cache.free(*object) };
    }
}

#[test]
fn nothing_comes_back_while_somebody_reads() {
    let _alone = alone();
    for debug in [false, true] {
        let cache = cache("read", Options { debug, ..Options::default() });
        let objects = take(&cache, 5000);
        let guard = read();
        defer(&cache, &objects);
        assert_eq!(cache.stats().objects_deferred, objects.len());
        assert_eq!(cache.stats().objects_out, 0);
        let distinct: HashSet<_> = objects.iter().collect();
        let others = take(&cache, 10_000);
        cache.shrink();
        assert!(others.iter().all(|object| !distinct.contains(object)));
        assert_eq!(cache.stats().objects_deferred, objects.len());
        drop(guard);
        give(&cache, &others);
        cache.destroy().unwrap();
    }
}

#[test]
fn what_was_deferred_is_allocated_again() {
    let _alone = alone();
    let cache = cache("again", Options::default());
    let mut seen = HashSet::new();
    for _ in 0..200_000 {
        let object = cache.alloc().unwrap();
        seen.insert(object);
        defer(&cache, &[object]);
    }
    // Far fewer than were allocated: they returned without a thread waiting for it.
    assert!(seen.len() < 100_000, "{} objects", seen.len());
    assert!(cache.stats().slabs < 100);
    cache.destroy().unwrap();
}

#[test]
fn a_cache_that_only_defers_gives_its_memory_back() {
    let _alone = alone();
    let cache = cache("burst", Options::default());
    let objects = take(&cache, 200_000);
    let slabs = cache.stats().slabs;
    defer(&cache, &objects);
    synchronize().unwrap();
    cache.shrink();
    synchronize().unwrap();
    cache.shrink();
    let stats = cache.stats();
    assert!(stats.objects_deferred < 2000, "{stats:?}");
    assert!(stats.slabs < slabs / 10, "{stats:?}");
    cache.destroy().unwrap();
}

/// A pointer to an object that readers read and updaters replace.
type Place = AtomicPtr<[AtomicU64; WORDS]>;

fn fresh(cache: &Cache, serial: u64) -> *mut [AtomicU64; WORDS] {
    let object = cache.alloc().unwrap().cast::<[AtomicU64; WORDS]>();
    // SAFETY: the object has this size and alignment, and all access is atomic.
    for word in unsafe { object.as_ref() } {
        // Relaxed: published by the swap.
        word.store(serial, Ordering::Relaxed);
    }
    object.as_ptr()
}

/// Checks that a reader sees the same number in every word, for as long as it reads.
fn look(place: &Place, spin: usize) {
    let _guard = read();
    // Acquire pairs with the AcqRel of the updater's swap.
    let object = place.load(Ordering::Acquire);
    // SAFETY: the object is not reused while the guard lasts. That is what is tested; slabs stay
    // mapped even if it is wrong.
    let words = unsafe { &*object };
    // Relaxed, both: the object must not change at all.
    let serial = words[0].load(Ordering::Relaxed);
    for _ in 0..spin {
        core::hint::spin_loop();
    }
    for word in words {
        assert_eq!(word.load(Ordering::Relaxed), serial, "an object was reused under a reader");
    }
    fence(Ordering::Acquire);
}

/// Runs readers and updaters, drains and short threads; returns how many of them found a fault.
/// `broken` frees at once.
fn storm(seconds: f64, broken: bool) -> usize {
    let cache = cache("storm", Options::default());
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let (serial, faults) = (AtomicU64::new(1), AtomicUsize::new(0));
    let over = AtomicBool::new(false);
    let places: Vec<Place> = (0..16).map(|_| AtomicPtr::new(fresh(&cache, 0))).collect();
    // Relaxed, all of this function: counters and hints; joining the threads orders the rest.
    let goes_on = || Instant::now() < until && !over.load(Ordering::Relaxed);
    let watched = |work: &dyn Fn()| {
        if std::panic::catch_unwind(core::panic::AssertUnwindSafe(work)).is_err() {
            faults.fetch_add(1, Ordering::Relaxed);
            over.store(true, Ordering::Relaxed);
        }
    };
    let update = |count: usize| {
        for index in 0..count {
            let new = fresh(&cache, serial.fetch_add(1, Ordering::Relaxed));
            // AcqRel: Release pairs with the Acquire in `look`.
            let old = places[index % places.len()].swap(new, Ordering::AcqRel);
            let old = NonNull::new(old).unwrap().cast();
            if broken {
                // SAFETY: it is not sound: readers have it. The slab stays mapped all the same.
                unsafe { cache.free(old) };
            } else {
                // SAFETY: unlinked, so that only readers have it.
                unsafe { cache.free_rcu(old) };
            }
        }
    };
    thread::scope(|scope| {
        for reader in 0..3 {
            let (places, watched, goes_on) = (&places, &watched, &goes_on);
            scope.spawn(move || {
                watched(&|| {
                    let mut turn = reader;
                    while goes_on() {
                        turn += 1;
                        look(&places[turn % places.len()], turn % 300);
                    }
                });
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                watched(&|| {
                    while goes_on() {
                        update(5000);
                    }
                });
            });
        }
        scope.spawn(|| {
            while goes_on() {
                thread::scope(|short| {
                    short.spawn(|| update(3));
                });
            }
        });
        scope.spawn(|| {
            while goes_on() {
                cache.shrink();
                thread::sleep(Duration::from_millis(2));
            }
        });
    });
    let place = |place: &Place| NonNull::new(place.load(Ordering::Relaxed)).unwrap().cast();
    give(&cache, &places.iter().map(place).collect::<Vec<_>>());
    cache.destroy().unwrap();
    faults.into_inner()
}

#[test]
fn readers_never_see_an_object_that_was_reused() {
    let _alone = alone();
    assert_eq!(storm(3.0, false), 0);
}

#[test]
fn the_storm_finds_objects_that_are_freed_too_early() {
    let _alone = alone();
    assert!((0..10).any(|_| storm(1.0, true) > 0));
}

#[test]
fn caches_end_while_others_seal_everything() {
    let _alone = alone();
    let end = Instant::now() + Duration::from_secs(2);
    let failed = AtomicBool::new(false);
    // Relaxed, here and below: a flag that ends loops.
    let goes_on = || Instant::now() < end && !failed.load(Ordering::Relaxed);
    // A thread that seals everything holds the sheaves of all of these before it reaches the brief
    // one.
    let others: Vec<_> = (0..40).map(|_| cache("other", Options::default())).collect();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while goes_on() {
                    others.iter().for_each(|other| defer(other, &take(other, 1)));
                    sheaves_rcu::defer::barrier().unwrap();
                }
            });
        }
        while goes_on() {
            let cache = cache("brief", Options::default());
            let objects = take(&cache, 20);
            defer(&cache, &objects);
            let destroyed = cache.destroy();
            failed.store(destroyed.is_err(), Ordering::Relaxed);
            destroyed.unwrap();
        }
    });
    others.into_iter().for_each(|other| other.destroy().unwrap());
}

#[test]
fn every_rung_of_the_emergency_ladder_is_reached() {
    let _alone = alone();
    let cache = cache("emergency", Options::default());
    sheaves_slab::internal::FAULTS.fail_one_in(2);
    let before = sheaves_slab::internal::emergencies();
    for _ in 0..if engines::is_small() { 5 } else { 50 } {
        let objects = take(&cache, 3000);
        defer(&cache, &objects);
    }
    let after = sheaves_slab::internal::emergencies();
    assert!(after.from_the_cache > before.from_the_cache, "{after:?}");
    // From here on every request fails: the caller waits for a grace period.
    sheaves_slab::internal::FAULTS.fail_one_in(1);
    let objects = take(&cache, 300);
    defer(&cache, &objects);
    assert!(sheaves_slab::internal::emergencies().waits > after.waits);
    // Unless it is a reader itself: then the object leaks, and a line reports it.
    let objects = take(&cache, 300);
    let guard = read();
    defer(&cache, &objects);
    drop(guard);
    sheaves_slab::internal::FAULTS.fail_one_in(0);
    let leaks = sheaves_slab::internal::emergencies().leaks as usize;
    assert!(leaks > 0);
    let refused = cache.destroy().unwrap_err();
    assert_eq!(refused.objects_out, leaks, "nothing but what was reported is lost");
}

#[test]
fn debug_caches_notice_what_is_deferred_twice_or_freed() {
    let _alone = alone();
    let cache = cache("twice", Options { debug: true, ..Options::default() });
    let objects = take(&cache, 3);
    // No object is reclaimed meanwhile.
    let guard = read();
    defer(&cache, &objects);
    // Ignored, each with a report: the objects are freed once.
    defer(&cache, &objects[..1]);
    give(&cache, &objects[1..2]);
    assert_eq!(cache.stats().objects_deferred, 3);
    drop(guard);
    cache.destroy().unwrap();
}

#[test]
fn slabs_of_type_stable_caches_stay_while_somebody_reads() {
    let _alone = alone();
    let cache = cache("typesafe", Options { typesafe_by_rcu: true, ..Options::default() });
    let objects = take(&cache, 50_000);
    let slabs = cache.stats().slabs;
    let guard = read();
    give(&cache, &objects);
    cache.shrink();
    assert_eq!(cache.stats().slabs, slabs, "a slab went away under a reader");
    // The memory may be allocated again at once.
    let again = take(&cache, 50_000);
    assert_eq!(cache.stats().slabs, slabs);
    give(&cache, &again);
    cache.shrink();
    drop(guard);
    synchronize().unwrap();
    cache.shrink();
    assert_eq!(cache.stats().slabs, 0);
    cache.destroy().unwrap();
}

#[test]
fn a_child_takes_back_what_was_deferred_before_the_fork() {
    let _alone = alone();
    let cache = cache("fork", Options::default());
    let objects = take(&cache, 1000);
    defer(&cache, &objects);
    // SAFETY: the child uses the cache and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let objects = take(&cache, 2000);
        defer(&cache, &objects);
        let is_fine = cache.destroy().is_ok();
        // SAFETY: ends the child without running the parent's handlers.
        unsafe { libc::_exit(i32::from(!is_fine)) };
    }
    let mut status = 0;
    // SAFETY: the child from above, and a place for its status.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    cache.destroy().unwrap();
}

#[test]
fn a_type_stable_cache_with_deferred_objects_ends_whole() {
    let _alone = alone();
    let typesafe = Options { typesafe_by_rcu: true, ..Options::default() };
    for _ in 0..20 {
        let cache = cache("both", typesafe);
        let objects = take(&cache, 20_000);
        defer(&cache, &objects[..10_000]);
        give(&cache, &objects[10_000..]);
        cache.destroy().unwrap();
    }
    // Another cache has its number and its slabs now.
    let cache = cache("next", Options::default());
    assert_eq!(cache.stats().slabs, 0);
    cache.destroy().unwrap();
}

/// Grace periods for what a thread defers need membarriers while others read, and stalls are looked
/// for: none of that by this thread, nor when it allocates again what is ready.
#[test]
fn a_thread_that_defers_and_allocates_interrupts_no_other() {
    const CALLS: [libc::c_long; 4] =
        [libc::SYS_membarrier, libc::SYS_tgkill, libc::SYS_openat, libc::SYS_sched_setaffinity];
    let _alone = alone();
    let cache = cache("quiet", Options::default());
    let is_over = AtomicBool::new(false);
    let mut filter = seccomp::program(&CALLS, 0);
    let refusals = filter.iter_mut().filter(|line| line.k == libc::SECCOMP_RET_ERRNO);
    refusals.for_each(|line| line.k = libc::SECCOMP_RET_KILL_PROCESS);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                drop(read());
            }
        });
        // The library's thread is there before the filter, which it would inherit.
        defer(&cache, &take(&cache, 1000));
        sheaves_rcu::defer::barrier().unwrap();
        scope.spawn(|| {
            let begin = Instant::now();
            match seccomp::install(&filter) {
                Ok(()) => {
                    while begin.elapsed() < Duration::from_millis(300) {
                        defer(&cache, &take(&cache, 300));
                    }
                }
                Err(error) => println!("skipped: filters are not permitted here: {error}"),
            }
            is_over.store(true, Ordering::Relaxed);
        });
    });
    sheaves_rcu::defer::barrier().unwrap();
    cache.destroy().unwrap();
}

#[test]
#[ignore = "measures"]
fn cost_of_a_deferred_free() {
    const COUNT: u32 = 30_000_000;
    for (threads, deferred) in [(1, false), (1, true), (2, false), (2, true)] {
        let cache = cache("cost", Options::default());
        let before = sheaves_rcu::statistics().grace_periods;
        let began = Instant::now();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    for _ in 0..COUNT {
                        let object = cache.alloc().unwrap();
                        // SAFETY: the object is ours.
                        unsafe { object.write(1) };
                        if deferred {
                            defer(&cache, &[object]);
                        } else {
                            give(&cache, &[object]);
                        }
                    }
                });
            }
        });
        let each_ns = began.elapsed().as_secs_f64() * 1e9 / f64::from(COUNT);
        let grace_periods = sheaves_rcu::statistics().grace_periods - before;
        println!("{threads} threads, deferred {deferred}: {each_ns:.2} ns, {grace_periods}");
        cache.destroy().unwrap();
    }
}
