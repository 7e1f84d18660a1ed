//! Tests of `src/tables/counter/contenders.rs`.

use super::*;

const THREADS: usize = 4;
const ADDITIONS: u64 = 10_000;

fn check<C: Count>(contender: C) {
    let before = contender.sum();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                (0..ADDITIONS).for_each(|amount| contender.add(amount));
                contender.increment();
            });
        }
    });
    let added = THREADS as u64 * (ADDITIONS * (ADDITIONS - 1) / 2 + 1);
    assert_eq!(contender.sum() - before, added);
}

#[test]
fn no_addition_is_lost() {
    check(sheaves::Counter::new());
    check(Padded(AtomicU64::new(0)));
    check(Sharded::new(THREADS));
    check(ThreadLocal);
}

#[test]
fn neighbouring_threads_take_different_shards() {
    let sharded = Sharded::new(2);
    let contender = &sharded;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| contender.add(1));
        }
    });
    let used = sharded.shards.iter().filter(|shard| shard.0.load(Ordering::Relaxed) > 0);
    assert!(used.count() >= 4);
}
