//! Tests of `src/harness/workers.rs`.

use super::*;

#[test]
fn every_worker_answers_in_order() {
    let workers = Workers::of(3).unwrap();
    for _ in 0..10 {
        assert_eq!(workers.run(|index| index * 2), [0, 2, 4]);
    }
    assert_eq!(Workers::of(3).unwrap().len(), 3);
}

#[test]
fn no_worker_passes_the_barrier_alone() {
    const THREADS: usize = 4;
    let workers = Workers::of(THREADS).unwrap();
    let barrier = Arc::new(SpinBarrier::new(THREADS));
    let count = Arc::new(AtomicUsize::new(0));
    let seen = workers.run(move |_| {
        let mut seen = Vec::new();
        for _ in 0..100 {
            // Relaxed: the barrier orders the additions before the reads.
            count.fetch_add(1, Ordering::Relaxed);
            barrier.wait();
            seen.push(count.load(Ordering::Relaxed));
            barrier.wait();
        }
        seen
    });
    for seen in seen {
        assert!(seen.iter().enumerate().all(|(round, count)| *count == (round + 1) * THREADS));
    }
}

#[test]
fn the_contender_is_dropped_with_the_sample() {
    let workers = Workers::of(2).unwrap();
    let thing = Arc::new(());
    let inner = Arc::clone(&thing);
    workers.run(move |_| Arc::strong_count(&inner));
    assert_eq!(Arc::strong_count(&thing), 1);
}
