extern crate std;
use super::*;
use crate::CacheId;
use crate::cache_id::{CACHES_MAX, NAMED_FIRST};
use crate::deferred;
use crate::profile::Request;
use crate::registry;
use crate::{reclaim, slow};
use core::alloc::Layout;

/// Sheaves and objects of a queue, by its own counters.
fn counts(queue: &Queue) -> (u32, usize) {
    (queue.sheaves.load(Ordering::Relaxed), queue.objects())
}

#[test]
fn a_queue_that_was_being_changed_is_counted_again() {
    let layout = Layout::new::<[u64; 4]>();
    let shape = Shape::new(layout).unwrap();
    let id = registry::create(shape, NAMED_FIRST..CACHES_MAX).unwrap();
    // No cookie passes meanwhile.
    let guard = sheaves_rcu::read();
    for _ in 0..1000 {
        deferred::free_rcu_slow(id, slow::alloc_slow(id, &Request::NONE));
    }
    let find = |queue: &&Queue| counts(queue).0 > 1;
    let queue = id.descriptor().deferred.iter().find(find).unwrap();
    let before = counts(queue);
    let mut sealed = queue.sealed.lock();
    // The last sheaf was linked, and nothing else was written.
    sealed.unstarted = 99;
    queue.sheaves.store(before.0 - 1, Ordering::Relaxed);
    queue.objects.store(7, Ordering::Relaxed);
    queue.recover_sheaves(id.shape(), &mut sealed);
    assert_eq!(counts(queue), before);
    assert_eq!(sealed.unstarted, 0);
    drop(sealed);
    drop(guard);
    assert_eq!(reclaim::destroy(id), Ok(()));
}

#[test]
fn a_sheaf_that_is_full_is_sealed() {
    let layout = Layout::new::<[u64; 5]>();
    let shape = Shape::new(layout).unwrap();
    let id = registry::create(shape, NAMED_FIRST..CACHES_MAX).unwrap();
    deferred::start(id);
    let mut open = empty_sheaf_for_tests(id);
    while !open.is_full() {
        // SAFETY: this test owns the sheaf, which is not full.
        open = unsafe { open.push(slow::alloc_slow(id, &Request::NONE)) };
    }
    let queue = &id.descriptor().deferred[0];
    let mut sealed = queue.sealed.lock();
    sealed.open.set(open);
    queue.recover_sheaves(id.shape(), &mut sealed);
    assert_eq!((sealed.open.cursor(), counts(queue).0), (Cursor::VACANT, 1));
    assert_eq!(sealed.sheaves.each().count(), 1);
    drop(sealed);
    assert_eq!(reclaim::destroy(id), Ok(()));
}

fn empty_sheaf_for_tests(id: CacheId) -> Cursor {
    format(id.shape(), crate::pool::take_empty().unwrap())
}
