//! Tests of `src/demonstration.rs`.

use super::*;

#[test]
fn a_demonstration_is_short() {
    for (part, sizes) in [("pair", SIZES.quick), ("slabtest", SIZES.full)] {
        let plan = asked(part, sizes, &["cache"]).plan().expect("a plan");
        let spent = plan.effort.time_max * plan.cases.len() as u32;
        assert!(spent.as_secs() < 40, "{part}: {spent:?} of a minute");
    }
}

#[test]
fn twice_as_fast_saves_half_of_the_share() {
    let text = meaning(&[2.0, 2.0]);
    assert!(text.contains("2.0 times") && text.contains("10 % less"), "{text}");
}
