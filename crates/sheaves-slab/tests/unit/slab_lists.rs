extern crate std;
use super::*;
use crate::cache_id::{CACHES_MAX, NAMED_FIRST};
use crate::profile::Request;
use crate::registry;
use crate::{reclaim, slow};
use core::alloc::Layout;
use std::vec::Vec;

#[test]
fn lists_are_made_anew() {
    let layout = Layout::from_size_align(9000, 8).unwrap();
    let shape = Shape::new(layout).unwrap();
    let id = registry::create(shape, NAMED_FIRST..CACHES_MAX).unwrap();
    let shape = id.shape();
    assert!(shape.granules > 1);
    let objects: Vec<usize> = (0..300).map(|_| slow::alloc_slow(id, &Request::NONE)).collect();
    let mut slabs = id.descriptor().slabs.lock();
    let before = (slabs.counts.slabs, slabs.free_objects());
    assert!(before.0 > 3);
    // A list is cut in the middle, the counts are stale, and a slab that is being added to the
    // cache has only its first entry in the owner map.
    slabs.heads = [slabs.heads[FULL]; WATCHED + 1];
    (slabs.counts.slabs, slabs.counts.empty) = (1, 77);
    let first = Granule::of(objects[0]).unwrap().align_down(shape.granules);
    first.after(1).set_owner(shape.granules - 1, 0);
    slabs.recover(id, shape);
    assert_eq!((slabs.counts.slabs, slabs.free_objects()), before);
    assert_eq!(first.after(1).owner(), id.owner(false));
    slabs.is_unsorted = true;
    let mut listed: Vec<_> = slabs.with_free_objects().map(|(granule, _)| granule.0).collect();
    listed.sort_unstable();
    listed.dedup();
    assert_eq!(listed.len(), before.0 as usize);
    drop(slabs);
    objects.into_iter().for_each(|object| slow::free_slow(id, object));
    assert_eq!(reclaim::destroy(id), Ok(()));
}
