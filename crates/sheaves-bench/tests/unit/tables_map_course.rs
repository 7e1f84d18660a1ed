//! Tests of `src/tables/map/course.rs`.

use super::*;
use crate::contenders::maps::{Dash, Ours};

/// A map of the contender that returns other values than were inserted, or loses entries.
pub(in super::super) struct Broken<const VALUE: u64, const LOST: u64>(Ours);

impl<const VALUE: u64, const LOST: u64> Map for Broken<VALUE, LOST> {
    type Guard<'a> = <Ours as Map>::Guard<'a>;

    fn with_capacity(entries: usize) -> Self {
        Broken(Map::with_capacity(entries))
    }

    fn guard(&self) -> Self::Guard<'_> {
        Map::guard(&self.0)
    }

    fn get(&self, key: u64, guard: &Self::Guard<'_>) -> Option<u64> {
        Map::get(&self.0, key, guard)
    }

    fn insert(&self, key: u64, value: u64, guard: &Self::Guard<'_>) {
        Map::insert(&self.0, key, value ^ VALUE, guard);
    }

    fn remove(&self, key: u64, guard: &Self::Guard<'_>) -> bool {
        Map::remove(&self.0, key, guard) && key != key_of(LOST)
    }

    fn len(&self) -> usize {
        Map::len(&self.0)
    }

    fn clear(&self) {
        Map::clear(&self.0);
    }

    fn each(&self, guard: &Self::Guard<'_>, at_entry: impl FnMut(u64)) {
        Map::each(&self.0, guard, at_entry);
    }
}

fn failure<M: Map>() -> Option<&'static str> {
    let orders = [1, 2].map(|seed| keys_in_order(100, seed));
    run(&M::with_capacity(0), &orders, 0..100, &SpinBarrier::new(1)).err()
}

#[test]
fn wrong_values_and_lost_entries_are_noticed() {
    assert_eq!([failure::<Ours>(), failure::<Dash<String>>()], [None; 2]);
    assert_eq!(failure::<Broken<0, 1000>>(), None);
    assert_eq!(failure::<Broken<1, 1000>>(), Some("an iteration found wrong values"));
    assert_eq!(failure::<Broken<0, 7>>(), Some("a map has lost entries"));
}
