use super::Falls;

const DECAY_MS: u64 = 1000;

/// True if what is too much may go back at each of these times, in ms, with that much in use.
fn may_go_back<const N: usize>(falls: &mut Falls, steps: [(u64, usize); N]) -> [bool; N] {
    steps.map(|(ms, in_use)| falls.may_at(5000 + ms, DECAY_MS, in_use))
}

#[test]
fn all_goes_back_at_the_first_fall() {
    let mut falls = Falls::NONE;
    let steps = [(0, 100), (1, 80), (2, 50), (3, 30), (4, 25), (5, 12), (6, 1), (7, 0)];
    assert_eq!(may_go_back(&mut falls, steps), [true; 8]);
}

#[test]
fn what_is_filled_again_stays_for_a_time() {
    let mut falls = Falls::NONE;
    assert_eq!(may_go_back(&mut falls, [(0, 100), (1, 50), (2, 10)]), [true; 3]);
    // Also all that it falls to.
    assert_eq!(may_go_back(&mut falls, [(10, 100), (11, 60), (12, 0), (20, 200)]), [false; 4]);
    let late = DECAY_MS + 1;
    assert_eq!(may_go_back(&mut falls, [(late, 0)]), [false]);
    assert_eq!(may_go_back(&mut falls, [(late + 1, 150), (late + 2, 70)]), [true; 2]);
    assert_eq!(may_go_back(&mut falls, [(late + 3, 150), (late + 4, 0)]), [false; 2]);
}

#[test]
fn more_than_there_was_goes_back() {
    let mut falls = Falls::NONE;
    assert_eq!(may_go_back(&mut falls, [(0, 100), (1, 10), (2, 201), (3, 100), (4, 0)]), [true; 5]);
}

/// It changes, but does not fall.
#[test]
fn what_is_replaced_goes_back() {
    let mut falls = Falls::NONE;
    for ms in 0..100 {
        assert_eq!(may_go_back(&mut falls, [(ms, 100), (ms, 51)]), [true; 2]);
    }
    assert_eq!(may_go_back(&mut falls, [(100, 50), (101, 0)]), [true; 2]);
}

#[test]
fn less_than_a_fall_and_a_filling_changes_nothing() {
    // It falls, but not to half; it grows, but not to twice what was left.
    let mut falls = Falls::NONE;
    assert_eq!(may_go_back(&mut falls, [(0, 100), (1, 60), (2, 130)]), [true; 3]);
    let mut falls = Falls::NONE;
    assert_eq!(may_go_back(&mut falls, [(0, 100), (1, 40), (2, 60), (3, 40)]), [true; 4]);
}
