//! `Counter`: exact sums, bounded errors, statics.

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use sheaves_percpu::Counter;

use crate::Dice;
#[cfg(target_arch = "x86_64")]
use crate::steps;

static STATIC: Counter = Counter::new();

#[test]
fn statics_count_from_the_beginning() {
    assert_eq!(STATIC.sum(), 0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..10_000).for_each(|_| STATIC.add(3)));
        }
    });
    STATIC.sub(1);
    assert_eq!(STATIC.sum(), 6 * 30_000 - 1);
}

#[test]
fn sums_are_exact_and_errors_bounded() {
    // Small batches, so that shares are moved all the time.
    let counter = Counter::<4>::with_batch();
    let running = AtomicBool::new(true);
    let expected: i64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=6)
            .map(|seed| {
                let counter = &counter;
                scope.spawn(move || {
                    let (mut dice, mut sum) = (Dice(seed), 0);
                    for _ in 0..if crate::engines::is_small() { 2000 } else { 50_000 } {
                        let amount = match dice.throw(10) {
                            0 => dice.throw(2000) as i64 - 900,
                            1 => -(dice.throw(16) as i64),
                            _ => dice.throw(16) as i64,
                        };
                        counter.add(amount);
                        sum += amount;
                        match dice.throw(4) {
                            0 => (counter.increment(), sum += 1),
                            1 => (counter.decrement(), sum -= 1),
                            _ => ((), ()),
                        };
                    }
                    sum
                })
            })
            .collect();
        scope.spawn(|| {
            // Relaxed: ends the loop.
            while running.load(Ordering::Relaxed) {
                let _ = counter.sum();
                std::thread::yield_now();
            }
        });
        let sum = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        running.store(false, Ordering::Relaxed);
        sum
    });
    assert_eq!(counter.sum(), expected);
    let error = counter.approximate().abs_diff(expected);
    assert!(error <= counter.error_bound(), "{error} of {}", counter.error_bound());
}

/// While a counter only grows, no thread sees it shrink, although shares are moved.
#[test]
fn sums_never_step_back() {
    let counter = Counter::<3>::with_batch();
    let running = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let adding: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let count = if crate::engines::is_small() { 3000 } else { 100_000 };
                    (0..count).for_each(|_| counter.add(1));
                })
            })
            .collect();
        let (counter, running) = (&counter, &running);
        scope.spawn(move || {
            let mut last = 0;
            // Relaxed: ends the loop.
            while running.load(Ordering::Relaxed) {
                let sum = counter.sum();
                assert!(sum >= last, "{last}, then {sum}");
                last = sum;
            }
        });
        adding.into_iter().for_each(|thread| thread.join().unwrap());
        running.store(false, Ordering::Relaxed);
    });
}

#[test]
fn large_and_extreme_amounts() {
    let counter = Counter::<10>::with_batch();
    for amount in [i64::MAX, i64::MIN, -1, 1 << 10, -(1 << 10), (1 << 10) - 1, 0] {
        let before = counter.sum();
        counter.add(amount);
        assert_eq!(counter.sum(), before.wrapping_add(amount), "{amount}");
        counter.sub(amount);
        assert_eq!(counter.sum(), before, "{amount}");
    }
    let widest = Counter::<30>::with_batch();
    for amount in [i64::MAX / 4, (1 << 30) - 1, 1, -1, -(1 << 30), -1] {
        let before = widest.sum();
        widest.add(amount);
        assert_eq!(widest.sum(), before + amount, "{amount}");
    }
}

/// A share keeps to its bounds, and the excess is in the total.
#[test]
fn approximate_count_is_within_a_batch_of_what_one_thread_adds() {
    let counter = Counter::<5>::with_batch();
    let mut sum = 0;
    for step in 0..1000 {
        match step / 100 % 3 {
            0 => (counter.increment(), sum += 1),
            1 => (counter.decrement(), sum -= 1),
            _ => (counter.add(step % 7 - 2), sum += step % 7 - 2),
        };
        assert_eq!(counter.sum(), sum, "step {step}");
        let error = (counter.approximate() - sum).unsigned_abs();
        assert!(error <= counter.error_bound(), "step {step}: {error}");
    }
    // With one slot in use, the bound is two batches.
    assert!(counter.error_bound() >= 2 << 5);
}

/// A handler interrupts an addition after each instruction, and fills the share that it moves.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_share_that_is_being_moved_is_within_the_bound() {
    const NAME: &str = "counters::a_share_that_is_being_moved_is_within_the_bound";
    const PLACES_MAX: usize = 5000;
    static COUNTER: Counter<5> = Counter::with_batch();
    static ADDED: AtomicI64 = AtomicI64::new(0);
    static WORST: AtomicU64 = AtomicU64::new(0);
    // Relaxed, here and below: one thread.
    fn add_batch() {
        for _ in 0..31 {
            COUNTER.increment();
        }
        let added = ADDED.fetch_add(31, Ordering::Relaxed) + 31;
        WORST.fetch_max(COUNTER.approximate().abs_diff(added), Ordering::Relaxed);
    }
    if !crate::is_process_for(NAME) {
        crate::in_process(NAME, &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "1")]);
        return;
    }
    let is_place = |after: &usize| {
        // A share was just moved, and the next one is full.
        let before = COUNTER.approximate();
        while COUNTER.approximate() == before {
            COUNTER.increment();
            ADDED.fetch_add(1, Ordering::Relaxed);
        }
        add_batch();
        steps::prepare(add_batch, *after);
        steps::begin();
        COUNTER.increment();
        COUNTER.increment();
        steps::end();
        ADDED.fetch_add(2, Ordering::Relaxed);
        steps::was_called()
    };
    let places = (0..PLACES_MAX).take_while(is_place).count();
    assert!((10..PLACES_MAX).contains(&places), "{places}");
    let (worst, bound) = (WORST.load(Ordering::Relaxed), COUNTER.error_bound());
    assert!(worst <= bound, "{worst} of {bound}");
}

/// Counters are created and dropped, and each begins at 0.
#[test]
fn counters_come_and_go() {
    for round in 0..if crate::engines::is_small() { 200 } else { 3000 } {
        let counter = Counter::new();
        assert_eq!(counter.sum(), 0, "round {round}");
        counter.add(round);
        assert_eq!(counter.sum(), round);
    }
}
