//! `futex`.

use core::sync::atomic::{AtomicU32, Ordering};

use sheaves_sys::futex::{wait, wait_either, wait_for, wait_shared_for, wake_all, wake_all_shared};

/// Longer than a test waits.
const LONG_NS: u64 = 60_000_000_000;

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

#[test]
fn either_word_ends_the_sleep() {
    static BELL: AtomicU32 = AtomicU32::new(0);
    static SHARED: AtomicU32 = AtomicU32::new(0);
    if !wait_either((&BELL, 1), (&SHARED, 0), LONG_NS) {
        std::println!("skipped: the kernel has no futex_waitv");
        return;
    }
    assert!(wait_either((&BELL, 0), (&SHARED, 1), LONG_NS));
    assert!(wait_either((&BELL, 0), (&SHARED, 0), 1_000_000));
    for word in [&BELL, &SHARED] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::Acquire) == 0 {
                    assert!(wait_either((&BELL, 0), (&SHARED, 0), LONG_NS));
                }
            });
            word.store(1, Ordering::Release);
            if core::ptr::eq(word, &raw const SHARED) {
                wake_all_shared(word);
            } else {
                wake_all(word);
            }
        });
        word.store(0, Ordering::Release);
    }
    wait_shared_for(&SHARED, 1, 1_000_000_000);
}
