//! Tests of `src/rcu/watch.rs`.

use super::*;
use crate::ask::answer::{GracePeriods, Reader};

fn answer(sequence: u64, readers: &[(i32, u64)]) -> Rcu {
    let rcu = GracePeriods { sequence, ..GracePeriods::default() };
    let readers = readers.iter().map(|(tid, sequence)| Reader {
        tid: *tid,
        sequence: *sequence,
        ..Reader::default()
    });
    Rcu { rcu, readers: readers.collect(), ..Rcu::default() }
}

#[test]
fn only_sections_of_an_older_sequence_are_the_same() {
    let (mut watch, begin) = (Watch::new(), Instant::now());
    let at = |ms| begin + Duration::from_millis(ms);
    // Thread 1 begins one section after the other, thread 2 stays in its own.
    assert!(watch.note(&answer(5, &[(1, 5), (2, 5)]), at(0)).is_none());
    assert!(watch.note(&answer(6, &[(1, 6), (2, 5)]), at(10)).is_none());
    let section = watch.note(&answer(6, &[(1, 6), (2, 5)]), at(30)).expect("seen twice");
    assert_eq!((section.tid, section.age), (2, Duration::from_millis(20)));
    assert!(watch.note(&answer(7, &[(1, 6), (2, 6)]), at(50)).is_none());
    assert_eq!(watch.longest(), Some(&section));
    assert!(watch.is_longest(&section));
}
