//! Tests of private items of `parts/slab_lists`.

extern crate std;
use core::alloc::Layout;
use core::ptr::NonNull;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::moves::{flush, refill};
use crate::raw::{Cache, Options};
use crate::space::cache_id::CacheId;

const SLABS: usize = 200;

/// A cache with many slabs, and one of eight objects in use. Slabs were listed when their first
/// object was freed, so most are on the wrong list.
fn thinned(name: &'static str, options: Options) -> (Cache, CacheId, Vec<NonNull<u8>>) {
    let layout = Layout::from_size_align(1024, 8).unwrap();
    let cache = Cache::new(name, layout, options).unwrap();
    let first = cache.alloc().unwrap();
    let granule = Granule::of(first.as_ptr().addr()).unwrap();
    let id = CacheId::new(slab::header(granule).cache.load(Ordering::Relaxed) - 1);
    free(&cache, id, vec![first]);
    let count = SLABS * id.shape().slab_objects;
    let (mut kept, mut freed) = (Vec::new(), Vec::new());
    for index in 0..count {
        let list = if index % 8 == 0 { &mut kept } else { &mut freed };
        list.push(cache.alloc().unwrap());
    }
    free(&cache, id, freed);
    (cache, id, kept)
}

/// Frees objects to their slabs.
fn free(cache: &Cache, id: CacheId, objects: Vec<NonNull<u8>>) {
    // SAFETY: from this cache, each once.
    objects.into_iter().for_each(|object| unsafe { cache.free(object) });
    flush::flush_here(id);
    flush::flush_depot(id, usize::MAX);
}

fn on_wrong_list(id: CacheId) -> usize {
    let slabs = id.descriptor().slabs.lock();
    let wrong = |list: usize| {
        slabs.on_list(list).filter(move |(_, slab)| right_list(slab, id.shape()) != list).count()
    };
    (0..=WATCHED).map(wrong).sum()
}

#[test]
fn a_search_moves_few_slabs_and_finds_one_all_the_same() {
    let (cache, id, kept) = thinned("moves", Options::default());
    let shape = id.shape();
    let mut before = on_wrong_list(id);
    assert!(before > 4 * MOVES, "{before}");
    let mut searches = 0;
    while before > 0 {
        let found = id.descriptor().slabs.lock().fullest(shape).unwrap();
        assert!(slab::header(found).has_free());
        let after = on_wrong_list(id);
        assert!(before - after <= MOVES, "{before} {after}");
        if after == before {
            break;
        }
        (before, searches) = (after, searches + 1);
    }
    assert!(searches > 4, "{searches}");
    free(&cache, id, kept);
    cache.destroy().unwrap();
}

#[test]
fn all_slabs_are_sorted_in_pieces_also_while_they_move() {
    let (cache, id, mut kept) = thinned("sorted", Options::default());
    let shape = id.shape();
    id.descriptor().slabs.lock().note_unsorted();
    while id.descriptor().slabs.lock().sort(shape, 7) {
        // These become empty, and are released: also the one at which the search goes on.
        let some = kept.len() - kept.len().min(20);
        free(&cache, id, kept.split_off(some));
    }
    assert_eq!(on_wrong_list(id), 0);
    free(&cache, id, kept);
    cache.destroy().unwrap();
}

/// The thread that forks holds the cache's lock, and others may be about to wait for it.
#[test]
fn a_child_sorts_all_slabs_also_if_its_thread_had_the_lock() {
    let (cache, id, kept) = thinned("forked", Options::default());
    // The process is not one with one thread.
    std::thread::spawn(|| ()).join().unwrap();
    let slabs = id.descriptor().slabs.lock();
    // SAFETY: the child uses the cache, and ends below.
    let child = unsafe { libc::fork() };
    drop(slabs);
    if child == 0 {
        while id.descriptor().slabs.lock().sort(id.shape(), 7) {}
        // SAFETY: ends the child without the harness of the tests.
        unsafe { libc::_exit(i32::from(on_wrong_list(id) != 0)) };
    }
    let mut status = -1;
    // SAFETY: waits for the child that was just created.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    free(&cache, id, kept);
    cache.destroy().unwrap();
}

/// Whichever of many watched slabs gets a free object, the next sample is that one.
#[test]
fn a_watched_slab_with_a_free_object_is_found_behind_full_ones() {
    const WATCHED_SLABS: usize = 20;
    let (cache, id, kept) = thinned("watched", Options::default());
    let take = || refill::take_watched(id).unwrap();
    let count = WATCHED_SLABS * id.shape().slab_objects;
    let mut samples: Vec<_> = (0..count).map(|_| take()).collect();
    let made = || id.descriptor().slabs.lock().counts.slabs_made;
    let before = made();
    for index in (0..count).step_by(97) {
        let sample = samples[index];
        flush::flush(id, &mut [sample]);
        assert_eq!(take(), sample);
    }
    assert_eq!(made(), before);
    flush::flush(id, &mut samples);
    free(&cache, id, kept);
    cache.destroy().unwrap();
}

#[test]
fn the_slab_that_has_been_empty_longest_goes_first() {
    let options = Options { typesafe_by_rcu: true, ..Options::default() };
    let (cache, id, kept) = thinned("oldest", options);
    // No grace period ends meanwhile.
    let section = sheaves_rcu::read();
    free(&cache, id, kept);
    let slabs = id.descriptor().slabs.lock();
    assert!(slabs.counts.empty > 1);
    assert!(slabs.releasable(id.shape()).is_none());
    let cookie = |slab: &Slab| slab.cookie.load(Ordering::Relaxed);
    let (oldest, last) = slabs.all_on_list(EMPTY).last().unwrap();
    assert_eq!(slabs.oldest_empty, oldest.0 + 1);
    assert!(slabs.all_on_list(EMPTY).all(|(_, slab)| cookie(slab) >= cookie(last)));
    drop(slabs);
    drop(section);
    cache.destroy().unwrap();
}
