//! Tests of the notes that tell which thread is in a closure.

extern crate std;
use super::*;
use crate::map::alone::child::child_ends;

use std::vec::Vec;

/// Locks as a map does: the lock of a chain, which is counted, then the note.
fn in_closure(map: usize, body: &mut dyn FnMut()) {
    tls::set_bit_locks(tls::bit_locks() + 1);
    let inside = Inside::begin(map);
    body();
    drop(inside);
    tls::set_bit_locks(tls::bit_locks() - 1);
}

fn nest(depth: usize, body: &mut dyn FnMut()) {
    match depth {
        0 => body(),
        _ => in_closure(64 * depth, &mut || nest(depth - 1, body)),
    }
}

fn noted() -> Vec<usize> {
    (0..60).filter(|number| is_inside(64 * number)).collect()
}

#[test]
fn a_thread_is_in_all_closures_around_it() {
    nest(30, &mut || {
        assert_eq!(noted(), Vec::from_iter(1..=30));
        std::thread::scope(|scope| {
            scope.spawn(|| in_closure(64 * 40, &mut || assert_eq!(noted(), [40])));
        });
    });
    in_closure(64, &mut || assert_eq!(noted(), [1]));
}

/// A thread that runs destructors has no lock for that, and is in none of its closures.
#[test]
fn a_thread_is_in_destructors_and_closures_apart() {
    let _destructors = Inside::begin(64 | DESTRUCTORS);
    assert!(is_inside(64 | DESTRUCTORS) && !is_inside(64));
    nest(2, &mut || {
        assert_eq!(noted(), [1, 2]);
        assert!(is_inside(64 | DESTRUCTORS) && !is_inside(128 | DESTRUCTORS));
    });
}

/// A thread of the child, which may have the memory of one of its parent's, is in none.
#[test]
fn a_thread_that_forks_in_a_closure_is_in_it_in_the_child() {
    nest(7, &mut || {
        let in_child = || {
            assert_eq!(noted(), Vec::from_iter(1..=7));
            in_closure(64 * 40, &mut || assert_eq!(noted(), [1, 2, 3, 4, 5, 6, 7, 40]));
            std::thread::scope(|scope| {
                scope.spawn(|| in_closure(64 * 41, &mut || assert_eq!(noted(), [41])));
            });
        };
        assert!(child_ends(in_child));
    });
}
