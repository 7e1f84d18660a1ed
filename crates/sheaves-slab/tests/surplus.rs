//! Without a keeper frees return the pages of what is unused, in whichever order objects are freed,
//! and no object is lost, doubled or changed by that.
//!
//! A process of its own: it checks the memory of the whole heap.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::collections::HashSet;

use sheaves_slab::internal::chunk;
use sheaves_slab::raw::{Cache, Options};

const BYTES: usize = 264;
const COUNT: usize = 400_000;
/// A free returns less to the kernel, until a sixteenth is left.
const RETURNED_BYTES_MAX: u64 = 1 << 20;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn resident_mib() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    (pages * sheaves_sys::map::page_bytes()) >> 20
}

/// Bytes that were returned to the kernel so far.
fn returned_bytes() -> u64 {
    let footprint = chunk::footprint();
    footprint.purged_bytes + footprint.holes_bytes
}

fn take(cache: &Cache, number: u64) -> NonNull<u8> {
    let object = cache.alloc().expect("memory");
    // SAFETY: the object has that many bytes, and is ours.
    unsafe { object.cast::<[u64; BYTES / 8]>().write([number; BYTES / 8]) };
    object
}

#[test]
fn frees_in_random_order_return_pages() {
    sheaves_sys::options::RCU_RECLAIMERS.set(0);
    let layout = Layout::from_size_align(BYTES, 8).unwrap();
    let cache = Cache::new("surplus", layout, Options::default()).unwrap();
    let mut state = 0x9E37_79B9_7F4A_7C15;
    let mut objects: Vec<_> = (0..COUNT).map(|n| (take(&cache, n as u64), n as u64)).collect();
    for index in (1..COUNT).rev() {
        objects.swap(index, random(&mut state) as usize % (index + 1));
    }
    let full = resident_mib();
    assert!(full > 100, "{full} MiB");
    let kept = objects.split_off(COUNT - 500);
    let (mut before_bytes, mut most_bytes) = (returned_bytes(), 0);
    for (freed, (object, _)) in objects.into_iter().enumerate() {
        // SAFETY: from this cache, not used after.
        unsafe { cache.free(object) };
        let bytes = returned_bytes();
        if freed < COUNT - COUNT / 16 {
            most_bytes = most_bytes.max(bytes - before_bytes);
        }
        before_bytes = bytes;
    }
    assert!(most_bytes <= RETURNED_BYTES_MAX, "a free has returned {most_bytes} bytes");
    let left = resident_mib();
    assert!(left + 50 < full, "{left} MiB of {full} are left");

    let mut seen: HashSet<_> = kept.iter().map(|(object, _)| *object).collect();
    let again: Vec<_> = (0..COUNT).map(|n| take(&cache, (COUNT + n) as u64)).collect();
    assert!(again.iter().all(|object| seen.insert(*object)), "an object was handed out twice");
    for (object, number) in kept {
        // SAFETY: ours since it was allocated.
        assert_eq!(unsafe { object.cast::<[u64; BYTES / 8]>().read() }, [number; BYTES / 8]);
        // SAFETY: from this cache, not used after.
        unsafe { cache.free(object) };
    }
    for object in again {
        // SAFETY: as above.
        unsafe { cache.free(object) };
    }
    cache.destroy().unwrap();
}
