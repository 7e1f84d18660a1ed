//! Tests of caches by their public interface: no object is lost or allocated twice, and all return.

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::collections::HashSet;
use std::sync::mpsc;

use sheaves_slab::Cache;
use sheaves_slab::raw::{self, CacheError, Options};

use crate::engines;

fn cache_of(name: &str, size: usize) -> raw::Cache {
    raw::Cache::new(name, Layout::from_size_align(size, 8).unwrap(), Options::default()).unwrap()
}

/// Writes a pattern that is unique to this object.
fn mark(object: NonNull<u8>, size: usize) {
    // SAFETY: the object is `size` bytes and ours.
    let bytes = unsafe { core::slice::from_raw_parts_mut(object.as_ptr(), size) };
    bytes.fill((object.as_ptr().addr() >> 3) as u8);
}

fn check(object: NonNull<u8>, size: usize) {
    // SAFETY: the object is `size` bytes and ours.
    let bytes = unsafe { core::slice::from_raw_parts(object.as_ptr(), size) };
    let expected = (object.as_ptr().addr() >> 3) as u8;
    // Each byte equals the one before: one comparison of memory, which is fast under valgrind, too.
    let is_whole = bytes[0] == expected && bytes[1..] == bytes[..size - 1];
    assert!(is_whole, "{object:p} was overwritten");
}

#[test]
fn ten_thousand_objects_are_distinct_and_come_back() {
    for size in [8, 16, 24, 64, 200, 1024, 4096, 16384, 65536] {
        let cache = cache_of("distinct", size);
        for round in 0..3 {
            let most = if engines::is_small() { 2_000 } else { 10_000 };
            let count = if size > 4096 { 1000 } else { most };
            let objects: Vec<_> = (0..count).map(|_| cache.alloc().unwrap()).collect();
            let distinct: HashSet<_> = objects.iter().collect();
            assert_eq!(distinct.len(), count);
            objects.iter().for_each(|object| mark(*object, size));
            assert_eq!(cache.stats().objects_out, count);
            for index in 0..count {
                let object = objects[if round == 1 { count - 1 - index } else { index }];
                check(object, size);
                // SAFETY: from this cache, not used after.
                unsafe { cache.free(object) };
            }
        }
        cache.destroy().unwrap();
    }
}

#[test]
fn what_a_rarely_used_cache_of_large_objects_frees_serves_others() {
    let cache = cache_of("rare", 16384);
    let allocate_and_free = || {
        let object = cache.alloc().unwrap();
        mark(object, 16384);
        check(object, 16384);
        // SAFETY: from this cache, not used after.
        unsafe { cache.free(object) };
        cache.stats()
    };
    for _ in 0..5 {
        let stats = allocate_and_free();
        assert_eq!((stats.slabs, stats.objects_in_slots), (0, 0), "{stats:?}");
    }
    // Often enough soon, however slow the machine: the object then stays in the slot.
    let is_kept = (0..100_000).any(|_| allocate_and_free().objects_in_slots > 0);
    assert!(is_kept, "{:?}", cache.stats());
    cache.destroy().unwrap();
}

#[test]
fn bulk_is_the_same_as_one_by_one() {
    let cache = cache_of("bulk", 48);
    for count in [0, 1, 5, 126, 127, 128, 1000, 5000] {
        let mut objects = vec![MaybeUninit::uninit(); count];
        assert_eq!(cache.alloc_bulk(&mut objects), count);
        // SAFETY: all were filled.
        let objects: Vec<NonNull<u8>> =
            objects.iter().map(|object| unsafe { object.assume_init() }).collect();
        assert_eq!(objects.iter().collect::<HashSet<_>>().len(), count);
        objects.iter().for_each(|object| mark(*object, 48));
        objects.iter().for_each(|object| check(*object, 48));
        // SAFETY: from this cache, each once.
        unsafe { cache.free_bulk(&objects) };
    }
    assert_eq!(cache.stats().objects_out, 0);
    cache.destroy().unwrap();
}

#[test]
fn objects_may_be_freed_by_other_threads() {
    let cache = cache_of("crossing", 64);
    let (sender, receiver) = mpsc::sync_channel::<usize>(256);
    let count = if engines::is_small() { 5_000 } else { 100_000 };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (sender, cache) = (sender.clone(), &cache);
            scope.spawn(move || {
                for _ in 0..count {
                    let object = cache.alloc().unwrap();
                    mark(object, 64);
                    sender.send(object.as_ptr().expose_provenance()).unwrap();
                }
            });
        }
        drop(sender);
        for address in receiver {
            let object = NonNull::new(core::ptr::with_exposed_provenance_mut(address)).unwrap();
            check(object, 64);
            // SAFETY: sent by the thread that allocated it.
            unsafe { cache.free(object) };
        }
    });
    assert_eq!(cache.stats().objects_out, 0);
    cache.destroy().unwrap();
}

#[test]
fn destroy_reports_what_is_out_and_loses_nothing() {
    let cache = cache_of("held", 32);
    let held = cache.alloc().unwrap();
    let error = cache.destroy().unwrap_err();
    assert_eq!(error.objects_out, 1);
    // SAFETY: from this cache.
    unsafe { error.cache.free(held) };
    error.cache.destroy().unwrap();
}

#[test]
fn constructor_runs_once_per_object_and_contents_stay() {
    let bound = || {
        stay_on_this_cpu();
        construct_and_take_again();
    };
    std::thread::spawn(bound).join().unwrap();
}

fn stay_on_this_cpu() {
    // SAFETY: an all-zero set is valid and empty.
    let mut here: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: no precondition.
    let processor = usize::try_from(unsafe { libc::sched_getcpu() }).unwrap();
    // SAFETY: the kernel's numbers are below the number of bits of the set.
    unsafe { libc::CPU_SET(processor, &mut here) };
    // SAFETY: the set is valid for reads of its size.
    assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(&here), &raw const here) }, 0);
}

fn construct_and_take_again() {
    /// # Safety
    /// `object` is 16 bytes.
    unsafe extern "C" fn construct(object: NonNull<u8>) {
        // SAFETY: as above.
        unsafe { object.cast::<u64>().write(0xC0FFEE) };
    }
    let (layout, options) = (Layout::new::<[u64; 2]>(), Options::default());
    // SAFETY: it writes to the object, which is 16 bytes.
    let cache = unsafe { raw::Cache::with_constructor("built", layout, options, construct) };
    let cache = cache.unwrap();
    let take = |count| -> Vec<NonNull<u64>> {
        (0..count).map(|_| cache.alloc().unwrap().cast::<u64>()).collect()
    };
    let values = |objects: &[NonNull<u64>]| -> Vec<u64> {
        // SAFETY: objects of this cache that the caller owns.
        objects.iter().map(|object| unsafe { object.read() }).collect()
    };
    let free = |objects: Vec<NonNull<u64>>| {
        for object in objects {
            // SAFETY: from this cache, not used after.
            unsafe { cache.free(object.cast()) };
        }
    };
    let first = take(500);
    assert!(values(&first).iter().all(|value| *value == 0xC0FFEE));
    for object in &first {
        // SAFETY: ours.
        unsafe { object.write(1) };
    }
    // Some stay, so that no slab is released. The others go back to the slabs, as far as this
    // thread reaches them: without membarrier that is not what it has freed on another CPU.
    let (kept, freed) = first.into_iter().enumerate().partition::<Vec<_>, _>(|it| it.0 % 50 == 0);
    let of = |objects: Vec<(usize, NonNull<u64>)>| objects.into_iter().map(|it| it.1).collect();
    free(of(freed));
    cache.shrink();
    // Nothing is written into free objects, and no constructor runs a second time.
    let second = take(1000);
    free(of(kept));
    let kept = values(&second).iter().filter(|value| **value == 1).count();
    assert!(kept > 200, "{kept}");
    assert!(values(&second).iter().all(|value| [1, 0xC0FFEE].contains(value)));
    free(second);
    cache.destroy().unwrap();
}

#[test]
fn zeroed_cache_gives_zeros() {
    let options = Options { zero: true, ..Options::default() };
    let cache = raw::Cache::new("zero", Layout::new::<[u64; 8]>(), options).unwrap();
    for _ in 0..3 {
        let object = cache.alloc().unwrap();
        // SAFETY: ours.
        assert_eq!(unsafe { object.cast::<[u64; 8]>().read() }, [0; 8]);
        mark(object, 64);
        // SAFETY: from this cache.
        unsafe { cache.free(object) };
    }
    cache.destroy().unwrap();
}

#[test]
fn shapes_out_of_range_are_errors() {
    let layout = |size, align| Layout::from_size_align(size, align).unwrap();
    for bad in [layout(0, 8), layout(65537, 8), layout(8, 1 << 17)] {
        assert_eq!(
            raw::Cache::new("bad", bad, Options::default()).unwrap_err(),
            CacheError::Layout
        );
    }
    assert_eq!(Cache::<()>::new("nothing").unwrap_err(), CacheError::Layout);
}

#[test]
fn alignment_is_kept() {
    for shift in 3..=16 {
        let layout = Layout::from_size_align(40, 1 << shift).unwrap();
        let cache = raw::Cache::new("aligned", layout, Options::default()).unwrap();
        let objects: Vec<_> = (0..100).map(|_| cache.alloc().unwrap()).collect();
        assert!(objects.iter().all(|object| object.as_ptr().addr() % (1 << shift) == 0));
        // SAFETY: from this cache, each once.
        unsafe { cache.free_bulk(&objects) };
        cache.destroy().unwrap();
    }
}

#[test]
fn boxes_drop_their_values() {
    let cache = Cache::<std::sync::Arc<()>>::new("arcs").unwrap();
    let counted = std::sync::Arc::new(());
    let boxes: Vec<_> = (0..500).map(|_| cache.insert(counted.clone())).collect();
    assert_eq!(std::sync::Arc::strong_count(&counted), 501);
    drop(boxes);
    assert_eq!(std::sync::Arc::strong_count(&counted), 1);
    drop(cache.insert(counted.clone()).into_inner());
    cache.destroy().unwrap();
}

/// Its destructor panics.
struct Panicking;

impl Drop for Panicking {
    fn drop(&mut self) {
        panic!("a destructor that panics");
    }
}

#[test]
fn box_whose_destructor_panics_frees_its_object() {
    let cache = Cache::<(Panicking, u64)>::new("panicking").unwrap();
    for number in 0..3 {
        let full = core::panic::AssertUnwindSafe(cache.insert((Panicking, number)));
        assert!(std::panic::catch_unwind(|| drop({ full }.0)).is_err());
    }
    cache.destroy().unwrap();
}

#[test]
fn shrink_returns_memory_while_others_work() {
    let cache = cache_of("shrinking", 128);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for round in 0..200 {
                    let objects: Vec<_> = (0..round * 7).map(|_| cache.alloc().unwrap()).collect();
                    objects.iter().for_each(|object| mark(*object, 128));
                    for object in objects {
                        check(object, 128);
                        // SAFETY: from this cache.
                        unsafe { cache.free(object) };
                    }
                }
            });
        }
        for _ in 0..300 {
            cache.shrink();
        }
    });
    assert!(cache.shrink());
    let stats = cache.stats();
    assert_eq!((stats.slabs, stats.objects_out), (0, 0), "{stats:?}");
    cache.destroy().unwrap();
}
