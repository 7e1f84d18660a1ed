//! Tests of `src/lock_per_cpu.rs`.

use super::*;

#[test]
fn a_full_array_is_flushed() {
    let layout = core::alloc::Layout::new::<[u8; 64]>();
    let cache = Cache::new("locked", layout, sheaves::raw::Options::default()).unwrap();
    let locked = Locked::new(cache);
    let all: Vec<_> = (0..CAPACITY * 4).map(|_| locked.alloc()).collect();
    let distinct: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
    for object in all {
        // SAFETY: allocated above and freed once.
        unsafe { locked.free(object) };
    }
}
