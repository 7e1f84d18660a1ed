use super::*;
use crate::defer::extents::SHEAVES;

#[test]
fn a_sheaf_that_is_full_is_sealed_and_everything_counted() {
    static SHARD: Shard = Shard::new(4);
    let sheaf = SHEAVES.take().unwrap();
    let mut waiting = SHARD.waiting.lock();
    // All entries are written, and the thread that was to seal them is gone.
    waiting.open.set(format(sheaf));
    waiting.bytes = 1240;
    for index in 1..=CAPACITY {
        // SAFETY: not full yet.
        let pushed = unsafe { waiting.open.cursor().push(index) };
        waiting.open.set(pushed);
    }
    SHARD.repair(&mut waiting);
    assert_eq!((waiting.open.cursor(), waiting.queue.each().count()), (Cursor::VACANT, 1));
    SHARD.count_again(&mut waiting);
    drop(waiting);
    let counts = [&SHARD.objects, &SHARD.bytes].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counts, [CAPACITY, 1240]);
    crate::synchronize().unwrap();
    let seen = core::cell::Cell::new(0);
    let next = |entry| assert_eq!(entry, seen.replace(entry) + 1);
    assert!(SHARD.reclaim(next, |_| panic!("no head is linked")));
    assert_eq!((seen.get(), SHARD.objects.load(Ordering::Relaxed)), (CAPACITY, 0));
}
