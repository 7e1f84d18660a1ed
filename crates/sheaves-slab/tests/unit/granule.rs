//! Tests of private items of `space/granule`.

use super::{all_from, first};
use crate::raw::{Cache, Options};
use crate::space::window::CHUNK_GRANULES;

#[test]
fn a_walk_begins_at_any_granule() {
    let cache =
        Cache::new("walk", core::alloc::Layout::new::<u64>(), Options::default()).expect("a cache");
    let object = cache.alloc().expect("memory");
    for position in [0, 1, CHUNK_GRANULES - 1] {
        let mut granules = all_from(position);
        assert_eq!(granules.next(), Some(first().after(position)));
        let rest = CHUNK_GRANULES - 1 - position;
        assert!(granules.count() >= rest, "the heap has a chunk at least");
    }
    assert_eq!(all_from(usize::MAX / 2).next(), None);
    // SAFETY: from this cache, not used after.
    unsafe { cache.free(object) };
}
