//! Tests of private items of `futex`.

extern crate std;
use super::*;
use core::sync::atomic::Ordering;

#[test]
fn a_changed_word_is_not_slept_on() {
    let word = AtomicU32::new(1);
    wait(&word, 0);
    wait_for(&word, 1, 1_000_000);
    assert_eq!(wake_all(&word), 0);
}

#[test]
fn all_sleepers_are_woken_by_one_call() {
    static WORD: AtomicU32 = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while WORD.load(Ordering::Acquire) == 0 {
                    wait(&WORD, 0);
                }
            });
        }
        WORD.store(1, Ordering::Release);
        wake_all(&WORD);
    });
}
