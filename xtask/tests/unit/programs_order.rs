//! Tests of `src/programs/mod.rs`.

use std::collections::BTreeSet;

use super::at_step;

#[test]
fn each_allocator_follows_each_other_one_once() {
    for count in [2, 4, 8] {
        let (mut pairs, mut places) = (BTreeSet::new(), BTreeSet::new());
        for round in 0..count {
            let order: Vec<_> = (0..count).map(|step| at_step(round, step, count)).collect();
            pairs.extend(order.windows(2).map(|pair| (pair[0], pair[1])));
            places.extend(order.into_iter().enumerate());
        }
        assert_eq!((pairs.len(), places.len()), (count * (count - 1), count * count));
    }
}
