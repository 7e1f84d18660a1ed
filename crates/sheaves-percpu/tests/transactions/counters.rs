//! Counters by addition: their sum is exact, whatever happens to the threads that add.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::time::Instant;

use sheaves_percpu::sheaf::VACANT;
use sheaves_percpu::slots::{Attached, attach, drain, observe};
use sheaves_percpu::{Word, add};

use crate::configurations::is_small;
use crate::one_slot::alone;

/// More threads than slots in the smallest configurations, and than most test machines have.
const THREADS: usize = 8;

fn duration() -> Duration {
    Duration::from_millis(if is_small() { 200 } else { 700 })
}

/// Adds for sure: a slot whose block is detached by a drain refuses for a moment.
fn add_surely(word: Word, amount: usize) {
    while !add(word, amount) {
        assert_eq!(attach(), Attached::Yes);
    }
}

/// A vacant word is the number VACANT, from which a counter starts.
fn counted(value: usize) -> usize {
    value.wrapping_sub(VACANT.get())
}

/// Adds 3 at a time; returns the number of additions.
fn add_from_many_threads(word: Word, meanwhile: impl Fn() + Sync) -> usize {
    let until = Instant::now() + duration();
    let additions = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while Instant::now() < until {
                    (0..1_000).for_each(|_| add_surely(word, 3));
                    // Relaxed: read after the threads have been joined.
                    additions.fetch_add(1_000, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            while Instant::now() < until {
                meanwhile();
                // This thread wakes beside one that adds.
                std::thread::sleep(Duration::from_micros(100));
            }
        });
    });
    additions.into_inner()
}

#[test]
fn sums_are_exact_with_more_threads_than_slots() {
    let _alone = alone();
    let word = Word::new(30);
    let additions = add_from_many_threads(word, || ());
    let mut sum = 0;
    observe(&[word], &mut |_, value| sum += counted(value));
    assert_eq!(sum, additions * 3);
}

#[test]
fn sums_are_exact_while_counters_are_drained() {
    let _alone = alone();
    let word = Word::new(31);
    let drained = std::sync::Mutex::new(0);
    let collect = || {
        let mut drained = drained.lock().unwrap();
        assert!(drain(&[word], &mut |_, value| *drained += counted(value)));
    };
    let additions = add_from_many_threads(word, collect);
    collect();
    assert_eq!(*drained.lock().unwrap(), additions * 3);
}
