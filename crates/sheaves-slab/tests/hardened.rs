//! Hardened caches: what is freed waits, is cleared and is checked. Findings are counted here in
//! place of ending the process; the tests of the heap see how it ends.
//!
//! The tests run in a process of their own, one after the other: [`alone`] makes it a hardened one.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};
use std::thread;

use sheaves_slab::internal::by_id::check_freed;
use sheaves_slab::internal::{FINDINGS, checking};
use sheaves_slab::raw::{Cache, Options};

/// How many errors were found, if they are counted.
fn findings() -> usize {
    FINDINGS.load(Ordering::Relaxed).saturating_sub(1)
}

#[expect(dead_code, reason = "shared with the tests of the per-CPU layer, which use all of it")]
#[path = "../../sheaves-percpu/tests/transactions/configurations.rs"]
mod engines;
#[path = "../../sheaves-percpu/tests/transactions/seccomp.rs"]
mod seccomp;

#[test]
fn in_every_configuration() {
    engines::run_all(4, false);
}

/// More than a cache's quarantine holds.
const MANY: usize = 20_000;
const SIZE: usize = 56;

/// Makes the process a hardened one, and counts findings from here on.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    let guard = LOCK.lock().unwrap();
    sheaves_sys::options::HARDEN.set(1);
    let _first = cache("first", 8);
    assert!(checking::is_hardened());
    FINDINGS.store(1, Ordering::Relaxed);
    guard
}

fn cache(name: &str, size: usize) -> Cache {
    Cache::new(name, Layout::from_size_align(size, 8).unwrap(), Options::default()).unwrap()
}

fn alloc(cache: &Cache, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| cache.alloc().unwrap()).collect()
}

fn free(cache: &Cache, objects: &[NonNull<u8>]) {
    // SAFETY: from this cache; where it is freed before, on purpose, the cache has to find that.
    objects.iter().for_each(|object| unsafe { cache.free(*object) });
}

/// Changes a byte of the allocator.
fn invert(byte: *mut u8) {
    // SAFETY: mapped, and read before it is written, by this thread alone.
    let value = unsafe { byte.read() };
    // SAFETY: as above.
    unsafe { byte.write(!value) };
}

fn fill(object: NonNull<u8>, size: usize, value: u8) {
    // SAFETY: the object has that size; where it is free, or smaller, the write is on purpose.
    unsafe { object.write_bytes(value, size) };
}

fn is_zero(object: NonNull<u8>, size: usize) -> bool {
    // SAFETY: the object has that size.
    let bytes = unsafe { core::slice::from_raw_parts(object.as_ptr(), size) };
    bytes.iter().all(|byte| *byte == 0)
}

/// The last byte of an object.
fn last(object: NonNull<u8>) -> u8 {
    // SAFETY: the object has that size.
    unsafe { object.cast::<[u8; SIZE]>().read()[SIZE - 1] }
}

#[test]
fn what_is_freed_waits_and_comes_back_as_zeros() {
    let _alone = alone();
    for size in [8, 24, SIZE, 500, 4096, 65_528, 65_536] {
        let cache = cache("waits", size);
        let count = (MANY * SIZE / size).max(20);
        let first = alloc(&cache, count);
        assert_eq!(first.iter().collect::<HashSet<_>>().len(), count);
        first.iter().for_each(|object| fill(*object, size, 0xa5));
        free(&cache, &first);
        let stats = cache.stats();
        assert_eq!(stats.objects_out, 0);
        let waiting_bytes = stats.objects_in_depot * stats.stride_bytes;
        let bytes_max = (600 << 10).max(24 * stats.stride_bytes);
        assert!(stats.objects_in_depot > 0 && waiting_bytes <= bytes_max, "{stats:?}");
        let recent = *first.last().unwrap();
        let next = alloc(&cache, count / 2);
        assert!(!next.contains(&recent), "reused at once");
        assert!(next.iter().all(|object| is_zero(*object, size)), "{size}");
        free(&cache, &next);
        cache.destroy().unwrap();
    }
    assert_eq!(findings(), 0);
}

#[test]
fn objects_come_in_random_order() {
    let _alone = alone();
    let cache = cache("random", SIZE);
    let objects = alloc(&cache, 1000);
    let ascending = objects.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!((300..700).contains(&ascending), "{ascending}");
    free(&cache, &objects);
    cache.destroy().unwrap();
}

#[test]
fn second_frees_are_found_wherever_the_first_one_is() {
    let _alone = alone();
    let cache = cache("twice", SIZE);
    let (kept, freed): (Vec<_>, Vec<_>) =
        alloc(&cache, MANY).into_iter().enumerate().partition(|(index, _)| index % 64 == 0);
    let [kept, freed] = [kept, freed].map(|list| list.into_iter().map(|(_, object)| object));
    let (kept, freed): (Vec<_>, Vec<_>) = (kept.collect(), freed.collect());
    free(&cache, &freed);
    // In quarantine, and in slabs.
    free(&cache, &[freed[freed.len() - 1], freed[freed.len() / 2], freed[0]]);
    assert_eq!(findings(), 3);
    let again = alloc(&cache, 2 * MANY);
    assert_eq!(again.iter().collect::<HashSet<_>>().len(), 2 * MANY);
    free(&cache, &again);
    free(&cache, &kept);
    cache.destroy().unwrap();
}

#[test]
fn frees_of_what_was_never_allocated_are_found() {
    let _alone = alone();
    let cache = cache("new", SIZE);
    let first = alloc(&cache, 1);
    let slab = first[0].addr().get() & !0xffff;
    let last = core::ptr::with_exposed_provenance_mut(slab + 1023 * cache.stats().stride_bytes);
    free(&cache, &[NonNull::new(last).unwrap()]);
    assert_eq!(findings(), 1);
    let all = alloc(&cache, MANY);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), MANY);
    free(&cache, &all);
    free(&cache, &first);
    cache.destroy().unwrap();
}

#[test]
fn writes_to_free_objects_and_past_ends_are_found() {
    let _alone = alone();
    let cache = cache("written", SIZE);
    let objects = alloc(&cache, 100);
    free(&cache, &objects);
    fill(objects[7], 1, 1);
    check_freed();
    assert_eq!(findings(), 1);
    fill(objects[7], 1, 0);
    // Past the end of one object and in the middle of another.
    let objects = alloc(&cache, 100);
    // The byte past the end is the object's, too.
    invert(objects[3].as_ptr().wrapping_add(SIZE));
    // First: the object behind it would find the same.
    free(&cache, &objects[3..4]);
    assert_eq!(findings(), 2);
    free(&cache, &[&objects[..3], &objects[4..]].concat());
    assert_eq!(findings(), 2);
    fill(objects[5], 1, 1);
    let more = alloc(&cache, MANY);
    free(&cache, &more);
    let more = alloc(&cache, MANY);
    assert_eq!(findings(), 3, "found before it is allocated again");
    free(&cache, &more);
    cache.destroy().unwrap();
}

/// Objects of which some stay in each slab, so that none becomes empty and is released, and others.
fn kept_and_freed(cache: &Cache, count: usize) -> (Vec<NonNull<u8>>, Vec<NonNull<u8>>) {
    let objects = alloc(cache, count);
    let (stats, mut halves) = (cache.stats(), HashSet::new());
    let half_bytes = stats.slab_bytes / stats.slabs / 2;
    objects.into_iter().partition(|object| halves.insert(object.addr().get() / half_bytes))
}

/// Frees most of some objects, and then writes some bytes to each of those, from `place` on.
/// Returns how many were written to, and how many were found when all are allocated again.
fn written_and_found(
    cache: &Cache,
    count: usize,
    place: impl Fn(usize) -> usize,
) -> (usize, usize) {
    let (kept, freed) = kept_and_freed(cache, 600);
    free(cache, &freed);
    let before = findings();
    for (index, object) in freed.iter().enumerate() {
        // SAFETY: inside the object.
        fill(unsafe { object.add(place(index)) }, count, 0xa5);
    }
    // Twice, since a quarantine keeps some of them, and the second time more than there are.
    for times in [2, 3] {
        let again = alloc(cache, times * freed.len());
        free(cache, &again);
    }
    free(cache, &kept);
    (freed.len(), findings() - before)
}

#[test]
fn larger_objects_are_checked_in_part() {
    const LARGE: usize = 5000;
    let _alone = alone();
    // What is written is not to go with a page that is returned to the kernel.
    let decay_ms = sheaves_sys::options::DECAY_MS.get();
    sheaves_sys::options::DECAY_MS.set(3_600_000);
    let all = |(written, found): (usize, usize)| assert_eq!(written, found);
    let whole = cache("whole", 512);
    all(written_and_found(&whole, 1, |index| index % 512));
    let large = cache("large", LARGE);
    for place in [0, 63, LARGE - 64, LARGE - 1] {
        all(written_and_found(&large, 1, |_| place));
    }
    const MUCH: usize = LARGE / 8 + 128;
    all(written_and_found(&large, MUCH, |index| index * 37 % (LARGE - MUCH)));
    // Eight lines of 78.
    let (_, found) = written_and_found(&large, 1, |_| LARGE / 2);
    assert!((15..110).contains(&found), "{found}");
    let options = Options { debug: true, ..Options::default() };
    let debug = Cache::new("debug", Layout::from_size_align(LARGE, 8).unwrap(), options).unwrap();
    all(written_and_found(&debug, 1, |index| 8 * index));
    for cache in [whole, large, debug] {
        cache.destroy().unwrap();
    }
    sheaves_sys::options::DECAY_MS.set(decay_ms);
}

/// The memory of the mappings that have addresses in a range, in KiB.
fn resident_kib(range: &Range<usize>) -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut is_inside, mut kib) = (false, 0);
    for line in text.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        if let Some((start, end)) = words[0].split_once('-') {
            is_inside = number(start) < range.end && number(end) > range.start;
        } else if is_inside && words[0] == "Rss:" {
            kib += words[1].parse::<usize>().unwrap();
        }
    }
    kib
}

#[test]
fn clearing_gives_memory_to_no_page() {
    // Few, so that their pages stay.
    const LARGE: usize = 40_000;
    let _alone = alone();
    let cache = cache("sparse", LARGE);
    let (kept, freed) = kept_and_freed(&cache, 150);
    for object in kept.iter().chain(&freed) {
        fill(*object, 1, 1);
        // SAFETY: the last byte of the object.
        fill(unsafe { object.add(LARGE - 1) }, 1, 1);
    }
    let addresses = freed.iter().map(|object| object.addr().get());
    let heap = addresses.clone().min().unwrap()..addresses.max().unwrap();
    let before = resident_kib(&heap);
    free(&cache, &freed);
    let grown = resident_kib(&heap).saturating_sub(before);
    // Not a page each.
    assert!(grown < freed.len(), "{grown}");
    free(&cache, &kept);
    cache.destroy().unwrap();
}

#[test]
fn objects_that_are_deferred_twice_are_found() {
    let _alone = alone();
    let cache = cache("deferred", SIZE);
    let objects = alloc(&cache, 500);
    for object in objects.iter().chain(&objects[..10]) {
        // SAFETY: from this cache, and without readers; ten are deferred twice on purpose.
        unsafe { cache.free_rcu(*object) };
    }
    cache.destroy().unwrap();
    assert_eq!(findings(), 10);
}

#[test]
fn constructed_objects_keep_their_contents() {
    unsafe extern "C" fn construct(object: NonNull<u8>) {
        fill(object, SIZE, 7);
    }
    let _alone = alone();
    let layout = Layout::from_size_align(SIZE, 8).unwrap();
    // SAFETY: it writes to the object.
    let made = unsafe { Cache::with_constructor("built", layout, Options::default(), construct) };
    let cache = made.unwrap();
    for _ in 0..3 {
        let objects = alloc(&cache, MANY);
        assert!(objects.iter().all(|object| last(*object) == 7));
        free(&cache, &objects);
    }
    cache.destroy().unwrap();
    assert_eq!(findings(), 0);
}

#[test]
fn threads_that_free_each_others_objects_find_nothing() {
    let _alone = alone();
    let cache = &cache("exchanged", SIZE);
    let hand = &Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..4_u8 {
            scope.spawn(move || {
                for round in 0..300 {
                    let mine = alloc(cache, 100 + round);
                    mine.iter().for_each(|object| {
                        assert!(is_zero(*object, SIZE));
                        fill(*object, SIZE, number + 1);
                    });
                    let taken = core::mem::replace(
                        &mut *hand.lock().unwrap(),
                        mine.iter().map(|object| object.as_ptr().expose_provenance()).collect(),
                    );
                    let taken: Vec<_> = taken
                        .into_iter()
                        .map(core::ptr::with_exposed_provenance_mut)
                        .filter_map(NonNull::new)
                        .collect();
                    free(cache, &taken);
                    if round % 100 == 0 {
                        cache.shrink();
                    }
                }
            });
        }
    });
    assert_eq!(findings(), 0);
}
