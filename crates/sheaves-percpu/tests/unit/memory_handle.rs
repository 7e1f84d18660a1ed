//! Tests of private items of `memory/handle`.

use super::*;

#[test]
fn handles_know_what_they_were_made_of() {
    for (offset, size, align) in [(16384, 1, 1), ((1 << 30) - 4, 32768, 4096), (65536, 20, 4)] {
        let handle = Handle::new(offset, size, align).unwrap();
        assert_eq!((handle.offset(), handle.size(), handle.align()), (offset, size, align));
        assert_eq!(Handle::from_bits(handle.to_bits()), Some(handle));
    }
}

#[test]
fn numbers_from_elsewhere_are_no_handles() {
    let handle = Handle::new(16384, 64, 8).unwrap().to_bits();
    assert_eq!(Handle::from_bits(0), None);
    let close = (0..64).filter(|bit| Handle::from_bits(handle ^ (1 << bit)).is_some()).count();
    assert!(close <= 1, "{close} of 64 neighbours pass");
}
