//! Unused memory goes back to the kernel without a call, and what is used stays whole.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use sheaves_slab::raw::{Cache, Options};

/// Three ticks of the keeper, on a machine that is busy with ten other tests.
const PATIENCE: Duration = Duration::from_secs(60);

fn cache(name: &str, size: usize) -> Cache {
    Cache::new(name, Layout::from_size_align(size, 8).unwrap(), Options::default()).unwrap()
}

fn fill(object: NonNull<u8>, size: usize, value: u8) {
    // SAFETY: the object has that size and is the caller's.
    unsafe { object.write_bytes(value, size) };
}

fn holds(object: NonNull<u8>, size: usize, value: u8) -> bool {
    // SAFETY: as above.
    let bytes = unsafe { core::slice::from_raw_parts(object.as_ptr(), size) };
    bytes.iter().all(|byte| *byte == value)
}

fn wait_until(what: impl core::fmt::Debug, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn slots_depots_and_slabs_become_empty() {
    // Where a process has one thread, only the calls of that thread return memory.
    thread::spawn(an_unused_cache_becomes_empty).join().unwrap();
}

fn an_unused_cache_becomes_empty() {
    let cache = cache("unused", 64);
    let objects: Vec<_> = (0..200_000).map(|_| cache.alloc().unwrap()).collect();
    for object in objects {
        // SAFETY: from this cache, not used after.
        unsafe { cache.free(object) };
    }
    wait_until(cache.stats(), || {
        let stats = cache.stats();
        (stats.slabs, stats.objects_in_slots, stats.objects_in_depot) == (0, 0, 0)
    });
    cache.destroy().unwrap();
}

#[test]
fn replaced_objects_move_together() {
    const COUNT: usize = 60_000;
    const IN_USE: usize = COUNT / 5;
    let cache = cache("sparse", 1000);
    let mut objects: Vec<_> = (0..COUNT).map(|_| cache.alloc().unwrap()).collect();
    let slabs = cache.stats().slabs;
    let mut random = 1_u64;
    let mut below = |count: usize| {
        random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (random >> 33) as usize % count
    };
    while objects.len() > IN_USE {
        let object = objects.swap_remove(below(objects.len()));
        // SAFETY: from this cache, not used after.
        unsafe { cache.free(object) };
    }
    assert!(cache.stats().slabs > slabs / 2, "they are sparse now: {:?}", cache.stats());
    wait_until("slabs with few objects", || {
        // As many as slots and depot hold go round.
        objects.extend((objects.len()..IN_USE).map(|_| cache.alloc().unwrap()));
        for _ in 0..1200 + below(600) {
            let object = objects.swap_remove(below(objects.len()));
            // SAFETY: as above.
            unsafe { cache.free(object) };
        }
        cache.stats().slabs < slabs / 2
    });
    for object in objects {
        // SAFETY: as above.
        unsafe { cache.free(object) };
    }
    cache.destroy().unwrap();
}

/// Pages of the kernel that have memory, of those wholly inside an object.
fn resident_pages(object: NonNull<u8>, size: usize) -> usize {
    let page = sheaves_sys::map::page_bytes();
    let (first, end) = (object.addr().get().next_multiple_of(page), object.addr().get() + size);
    let count = (end / page * page).saturating_sub(first) / page;
    let mut is_there = vec![0_u8; count];
    let start = core::ptr::with_exposed_provenance_mut(first);
    // SAFETY: the range is mapped, and the list has an entry for each page.
    assert_eq!(unsafe { libc::mincore(start, count * page, is_there.as_mut_ptr()) }, 0);
    is_there.iter().filter(|is_there| **is_there & 1 != 0).count()
}

#[test]
fn holes_are_discarded_and_their_neighbours_are_not() {
    let (size, count) = (20_000, 8_000);
    let cache = cache("holes", size);
    let objects: Vec<_> = (0..count).map(|_| cache.alloc().unwrap()).collect();
    objects.iter().enumerate().for_each(|(index, object)| fill(*object, size, index as u8));
    let (kept, freed): (Vec<_>, Vec<_>) =
        objects.into_iter().enumerate().partition(|(index, _)| index % 10 == 3);
    let resident = || freed.iter().map(|(_, object)| resident_pages(*object, size)).sum::<usize>();
    assert!(resident() > count, "they were resident before");
    for (_, object) in &freed {
        // SAFETY: from this cache; from here on only its address is used.
        unsafe { cache.free(*object) };
    }
    // Only a slow path that allocates starts the library's thread.
    let other = self::cache("starts", 8);
    let object = other.alloc().unwrap();
    wait_until("pages of free objects", || resident() == 0);
    // SAFETY: from this cache, not used after.
    unsafe { other.free(object) };
    other.destroy().unwrap();
    for (index, object) in kept {
        assert!(holds(object, size, index as u8));
        // SAFETY: as above.
        unsafe { cache.free(object) };
    }
    cache.destroy().unwrap();
}

/// Each thread changes its objects all the time, while the keeper ticks several times.
#[test]
fn what_is_used_stays_whole() {
    let size = 3_000;
    let cache = cache("used", size);
    let until = Instant::now() + Duration::from_secs(3);
    thread::scope(|scope| {
        for seed in 1..4_u64 {
            let cache = &cache;
            scope.spawn(move || {
                let mut state = seed;
                let mut live: Vec<(NonNull<u8>, u8)> = Vec::new();
                while Instant::now() < until {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed);
                    let number = (state >> 40) as usize;
                    // A burst, half of it freed at once; long enough between two for a look.
                    if number.is_multiple_of(50_000) {
                        thread::sleep(Duration::from_millis(600));
                    }
                    if live.len() < 2_000 && !number.is_multiple_of(3) {
                        let object = cache.alloc().unwrap();
                        fill(object, size, number as u8);
                        live.push((object, number as u8));
                    } else if !live.is_empty() {
                        let (object, value) = live.swap_remove(number % live.len());
                        assert!(holds(object, size, value), "{object:p} was overwritten");
                        // SAFETY: from this cache, not used after.
                        unsafe { cache.free(object) };
                    }
                }
                for (object, value) in live {
                    assert!(holds(object, size, value), "{object:p} was overwritten");
                    // SAFETY: as above.
                    unsafe { cache.free(object) };
                }
            });
        }
    });
    assert_eq!(cache.stats().objects_out, 0);
    cache.destroy().unwrap();
}
