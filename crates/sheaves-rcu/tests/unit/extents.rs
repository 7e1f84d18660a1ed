//! Tests of private items of `defer/store/extents`.

extern crate std;
use super::*;
use std::vec::Vec;

#[test]
fn sheaves_are_distinct_and_extents_go_back() {
    static SHEAVES: Extents = Extents::new();
    let mut sheaves: Vec<_> = (0..1000).map(|_| SHEAVES.take().unwrap()).collect();
    sheaves.sort_unstable_by_key(|sheaf| sheaf.address());
    let is_apart = |pair: &[Sheaf]| pair[1].address() - pair[0].address() >= Sheaf::BYTES;
    assert!(sheaves.windows(2).all(is_apart));
    assert!(sheaves.iter().all(|sheaf| sheaf.address().is_multiple_of(Sheaf::BYTES)));
    let most = SHEAVES.mapped_bytes();
    assert!(most >= 1000 * Sheaf::BYTES);
    for sheaf in sheaves {
        // SAFETY: taken above, once.
        unsafe { SHEAVES.give(sheaf) };
    }
    assert_eq!(SHEAVES.mapped_bytes(), SPARE_EXTENTS as usize * EXTENT_BYTES);
    // What came back is given out again.
    let sheaf = SHEAVES.take().unwrap();
    assert_eq!(SHEAVES.mapped_bytes(), SPARE_EXTENTS as usize * EXTENT_BYTES);
    // SAFETY: taken above.
    unsafe { SHEAVES.give(sheaf) };
}
