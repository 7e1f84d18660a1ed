//! Counters by addition: their sum is exact, whatever happens to the threads that add.

use core::sync::atomic::{AtomicBool, Ordering};

use sheaves_percpu::sheaf::VACANT;
use sheaves_percpu::slots::{Attached, attach, drain, observe};
use sheaves_percpu::{Word, add};

use crate::configurations::is_small;
use crate::one_slot::alone;

/// More threads than slots in the smallest configurations, and than most test machines have.
const THREADS: usize = 8;

fn additions() -> usize {
    if is_small() { 2_000 } else { 200_000 }
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

fn add_from_many_threads(word: Word, meanwhile: impl Fn() + Sync) {
    let running = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let adders: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(move || (0..additions()).for_each(|_| add_surely(word, 3))))
            .collect();
        let (running, meanwhile) = (&running, &meanwhile);
        scope.spawn(move || {
            // Relaxed: ends the loop; joining orders the rest.
            while running.load(Ordering::Relaxed) {
                meanwhile();
            }
        });
        adders.into_iter().for_each(|adder| adder.join().unwrap());
        running.store(false, Ordering::Relaxed);
    });
}

#[test]
fn sums_are_exact_with_more_threads_than_slots() {
    let _alone = alone();
    let word = Word::new(30);
    add_from_many_threads(word, std::thread::yield_now);
    let mut sum = 0;
    observe(&[word], &mut |_, value| sum += counted(value));
    assert_eq!(sum, THREADS * additions() * 3);
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
    add_from_many_threads(word, collect);
    collect();
    assert_eq!(*drained.lock().unwrap(), THREADS * additions() * 3);
}
