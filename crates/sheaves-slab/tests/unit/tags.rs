//! Tests of private items of `moves/tags`.

extern crate std;

use core::alloc::Layout;
use core::sync::atomic::AtomicBool;
use std::{thread, vec};

use sheaves_percpu::Access;
use sheaves_percpu::internal::slots::attach;
use sheaves_percpu::internal::{EngineMode, mode, pop_source, push_slow};

use super::*;
use crate::moves::{flush, slot};
use crate::raw::{Cache, Options};
use crate::space::granule::Granule;
use crate::space::{checking, slab};

#[test]
fn tags_are_as_frequent_as_samples_should_be() {
    let _one = profile::tests::alone();
    let shape = Shape::new(Layout::from_size_align(64, 8).unwrap()).unwrap();
    assert!(profile::begin(4096));
    let chance = 1.0 - (-64.0_f64 / 4096.0).exp();
    let mut counts = [0_usize; 31];
    const SHEAVES: usize = 40_000;
    for _ in 0..SHEAVES {
        let mut objects = vec![0x1000_usize; 31];
        tag(&shape, &mut objects);
        for (count, object) in counts.iter_mut().zip(objects) {
            assert_eq!(object & !TAG, 0x1000);
            *count += object & TAG;
        }
    }
    // Each place alike: five standard errors.
    let expected = SHEAVES as f64 * chance;
    for (place, count) in counts.iter().enumerate() {
        let deviation = (*count as f64 - expected).abs();
        assert!(deviation < 5.0 * expected.sqrt(), "place {place}: {count} of {expected}");
    }
    profile::end();
    let mut objects = vec![0x1000_usize; 1000];
    tag(&shape, &mut objects);
    assert!(objects.iter().all(|object| *object == 0x1000));
}

/// A new cache.
fn cache(name: &str, size: usize) -> CacheId {
    let layout = Layout::from_size_align(size, 8).unwrap();
    let cache = Cache::new(name, layout, Options::default()).unwrap();
    let object = cache.alloc().unwrap();
    let header = slab::header(Granule::of(object.as_ptr().addr()).unwrap());
    // Relaxed: this thread's own object.
    let id = CacheId::new(header.cache.load(Ordering::Relaxed) - 1);
    // SAFETY: from this cache, and not used after.
    unsafe { cache.free(object) };
    id
}

#[test]
fn sheaves_hold_few_large_blocks() {
    let small = |size| Shape::new(Layout::from_size_align(size, 8).unwrap()).unwrap();
    assert!((28..=32).contains(&drawn_objects(&small(1 << 10))));
    assert_eq!(drawn_objects(&small(16 << 10)), 16);
    assert_eq!(drawn_objects(&Shape::alone(256 << 10)), 2);
    assert_eq!(drawn_objects(&Shape::alone(1 << 20)), 0);
}

/// True if the fast path allocates from the spare word of the current slot.
fn source_is_spare(id: CacheId) -> bool {
    // Again where the thread changes its slot in between.
    loop {
        attach();
        flush::flush_here(id);
        let [main, spare] = [id.main(), id.spare()];
        for (word, number) in [(main, 2), (spare, 4)] {
            let sheaf = pool::format(pool::take_empty().unwrap(), 1);
            let _ = slot::exchange(word, sheaf, |_| true);
            // SAFETY: what is popped is used as a number only.
            let _ = unsafe { push_slow(word, number) };
        }
        let popped = pop_source(Access::get(), main);
        // Otherwise the numbers would return to slabs.
        for word in [main, spare] {
            let _ = slot::take_sheaf(word, |_| true);
        }
        if let Some(number) = popped {
            return number == 4;
        }
    }
}

/// Enough that some are between the steps of a switch, if another thread can see it there.
const FORKS: usize = 200;
/// Status of a child in which both are switched.
const DRAWING: i32 = 3 << 8;

#[test]
fn fork_finds_samples_and_the_words_switched_together() {
    let id = cache("forked", 64);
    if mode() != EngineMode::Rseq || checking::is_hardened() {
        return;
    }
    let _one = profile::tests::alone();
    let is_over = AtomicBool::new(false);
    let (mut drawing, mut wrong) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            // Relaxed, both: a flag.
            while !is_over.load(Ordering::Relaxed) {
                assert!(profile::begin(profile::RATE_BYTES));
                profile::end();
            }
        });
        for _ in 0..FORKS {
            // SAFETY: the child uses the cache, and leaves by `_exit`.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let status = i32::from(is_drawing()) + 2 * i32::from(source_is_spare(id));
                // SAFETY: ends the child without the harness of the tests.
                unsafe { libc::_exit(status) };
            }
            let mut status = 0;
            // SAFETY: our own child, and a place for its status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            match status {
                0 => {}
                DRAWING => drawing += 1,
                _ => wrong += 1,
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(wrong, 0, "of {FORKS} children, {drawing} draw samples");
}
