//! Tests of private items of `records/secret`.

use super::*;

const FIRST: usize = 0x7f12_3456_0000;
const STRIDE: usize = 80;

#[test]
fn canaries_end_strings_and_differ_in_about_half_of_their_bits() {
    draw();
    let canaries: [_; 1000] = core::array::from_fn(|index| canary(FIRST + index * STRIDE));
    assert!(canaries.iter().all(|canary| canary.to_le_bytes()[0] == 0));
    let differing = canaries.windows(2).map(|pair| (pair[0] ^ pair[1]).count_ones());
    // 999 times 28 of 56 bits.
    assert!((27_000..29_000).contains(&differing.sum::<u32>()));
}

/// A canary that is the product of a constant and the masked address gives the mask away by one
/// division. Neither of the keys follows so.
#[test]
fn no_key_follows_from_a_canary_by_a_division() {
    draw();
    let [first, second] = get(&KEYS);
    let known = [0x9E37_79B9_7F4A_7C15, first, second];
    for factor in known {
        // Newton's steps to the inverse of an odd number modulo 2^64.
        let inverse = (0..6).fold(factor, |inverse: usize, _| {
            inverse.wrapping_mul(2_usize.wrapping_sub(factor.wrapping_mul(inverse)))
        });
        let mask = canary(FIRST).wrapping_mul(inverse) ^ FIRST;
        let other = FIRST + STRIDE;
        assert_ne!((other ^ mask).wrapping_mul(factor), canary(other));
        assert!(![get(&KEYS), get(&ORDER)].as_flattened().contains(&mask));
    }
}

#[test]
fn every_place_gets_every_object_as_often() {
    const OBJECTS: usize = 9;
    draw();
    let mut counts = [[0_u32; OBJECTS]; OBJECTS];
    for _ in 0..9000 {
        let mut objects: [usize; OBJECTS] = core::array::from_fn(|index| index);
        let mut order = Order::new(OBJECTS);
        (0..OBJECTS).for_each(|index| objects.swap(index, order.below(index + 1)));
        for (place, object) in objects.into_iter().enumerate() {
            counts[place][object] += 1;
        }
    }
    // 1000 each; seven times the deviation to be expected.
    assert!(counts.as_flattened().iter().all(|count| (790..1210).contains(count)), "{counts:?}");
}
