//! Tests of private items of `protocol`.

use super::machine::{AtomicU64, Ordering};
use super::owner::{Owner, STAMP_SHIFT, Seen};
use super::reader::*;

#[test]
fn sections_end_where_they_began() {
    for outside in [OUTSIDE, OUTSIDE_FENCED] {
        let outer = outermost(outside, FIRST + 5 * STEP);
        assert!(is_reading(outer) && !is_reading(outside));
        assert_eq!(left(outer), outside);
    }
}

#[test]
fn threads_fence_at_first_only() {
    let warm = (0..SECTIONS_COLD).fold(cold(), |nesting, _| {
        assert!(nesting & SLOW != 0);
        warmed(nesting)
    });
    assert_eq!((warm, warmed(warm)), (0, 0));
    assert_eq!(warmed(SLOW), SLOW, "for good");
    assert_eq!(warmed(SLOW | COLD | 7), 7);
}

fn idle() -> Reader {
    let [state, nesting, fenced] = [const { AtomicU64::new(0) }; 3];
    Reader { state, nesting, fenced }
}

#[test]
fn the_last_unlock_wakes_the_leader_once() {
    let (reader, sequence) = (idle(), AtomicU64::new(FIRST));
    assert_eq!(reader.leave_slow(), Left::NoSection);
    for nested in 0..3 {
        assert!(reader.enter(&sequence));
        reader.ask_to_wake();
        for _ in 0..nested {
            assert_eq!(reader.enter_slow(&sequence), Some(false));
        }
        for _ in 0..nested {
            assert_eq!(reader.leave_slow(), Left::Section);
        }
        assert_eq!(reader.leave_slow(), Left::Awaited);
        // The fast path again.
        assert_eq!(reader.nesting.load(Ordering::Relaxed), 0);
    }
    // Sections that fence count on.
    assert_eq!(warmed(AWAITED | SLOW | (2 * COLD)), AWAITED | SLOW | COLD);
    assert_eq!(warmed(AWAITED | SLOW | COLD), AWAITED);
    assert_eq!(warmed(AWAITED | SLOW), AWAITED | SLOW);
}

#[test]
fn only_other_sequences_hold_up() {
    let global = FIRST + 9 * STEP;
    assert!(has_passed(OUTSIDE, global) && has_passed(OUTSIDE_FENCED, global));
    assert!(has_passed(outermost(OUTSIDE_FENCED, global), global));
    assert!(!has_passed(outermost(OUTSIDE, global - STEP), global));
    assert!(!has_passed(outermost(OUTSIDE, global + STEP), global));
}

#[test]
fn a_later_thread_of_the_same_number_is_another_one() {
    let [early, late, round, other] =
        [(7, 42), (8, 42), (1 << 40, 42), (9, 43)].map(|(stamp, thread)| {
            let owner = Owner(AtomicU64::new(0));
            owner.take(stamp, thread);
            owner.load()
        });
    assert!(late.follows(early) && !early.follows(late) && !early.follows(early));
    assert!(!other.follows(early) && !late.follows(other));
    let last = Seen(u64::MAX << STAMP_SHIFT | 42);
    assert!(round.follows(last) && !last.follows(round));
}

#[test]
fn a_record_that_was_taken_again_is_not_taken_back() {
    let owner = Owner(AtomicU64::new(0));
    owner.take(1, 42);
    let seen = owner.load();
    assert!(owner.hold(seen) && !owner.hold(seen) && !owner.take_back(seen));
    assert_eq!((owner.load().thread(), owner.load().is_held()), (42, true));
    assert!(owner.take_back(owner.load()));
    owner.take(2, 42);
    assert!(!owner.take_back(seen));
}
