extern crate std;
use super::in_progress::InProgress;
use super::state::{CHUNKS, chunk, mask, position_of, runs_of};
use super::{begin_run, finish_run, give_run};
use crate::raw::{Cache, Options};
use core::alloc::Layout;

#[test]
fn runs_are_found_bit_by_bit() {
    for (free, count) in
        [(0b1111_u32, 3), (0b1011_0111, 3), (u32::MAX, 32), (0, 1), (1 << 31, 1), (!1, 31)]
    {
        for bit in 0..32 {
            let is_run =
                bit + count <= 32 && (bit..bit + count).all(|place| free & (1 << place) != 0);
            assert_eq!(runs_of(free, count) & (1 << bit) != 0, is_run, "{free:b} {count} {bit}");
        }
    }
}

/// A thread that is copied in the middle of a change has changed any bits of one map and not of
/// another.
#[test]
fn half_made_changes_are_put_in_order() {
    let _started = Cache::new("chunks", Layout::new::<u64>(), Options::default()).unwrap();
    let runs = [1, 3, 8].map(|count| {
        let made = begin_run(count, 1).unwrap();
        finish_run(&made);
        (made.first, count)
    });
    let mut chunks = CHUNKS.lock();
    let before = (chunks.used, chunks.dirty);
    for (first, count) in runs {
        let (index, bit) = position_of(first);
        let state = chunk(index);
        // On their way back, or out again, and nothing else says so.
        state.clean |= mask(bit, count);
        state.young |= mask(bit, count);
    }
    (chunks.used, chunks.dirty) = (7, 7);
    chunks.first_fit.fill(u32::MAX);
    chunks.recover();
    assert_eq!((chunks.used, chunks.dirty), before);
    for index in 0..chunks.count {
        let state = chunk(index);
        assert_eq!(state.clean & !state.free, 0);
        assert_eq!(state.young & (!state.free | state.clean), 0);
    }
    drop(chunks);
    for (first, count) in runs {
        give_run(first, count);
    }
}

#[test]
fn granules_of_this_thread_stay_in_progress() {
    let mut list = InProgress::new();
    assert_eq!(list.begin(5, 1), Some(0));
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(list.begin(6, 2), Some(1)));
    });
    let other = list.of_others().next().unwrap();
    assert_eq!((other.index, other.granules), (6, 2));
    other.thread = 0;
    assert!(list.of_others().next().is_none());
    assert_eq!(list.begin(7, 4), Some(1));
    list.end(0);
    assert_eq!(list.begin(8, 8), Some(0));
}
