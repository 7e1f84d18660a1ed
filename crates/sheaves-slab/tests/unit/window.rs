//! Tests of private items of `space/window`.

extern crate std;

use core::sync::atomic::Ordering;
use std::vec::Vec;

use sheaves_sys::map::{self, Exactly};
use sheaves_sys::space::{Area, Places};

use super::{GUARD_BYTES, REGIONS, Region};
use crate::raw::{Cache, Options};

/// The address ranges of this process that are mapped.
fn mapped() -> Vec<(usize, usize)> {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap();
    let number = |text: &str| usize::from_str_radix(text, 16).unwrap();
    let range = |line: &str| {
        let (begin, rest) = line.split_once('-').unwrap();
        (number(begin), number(rest.split_once(' ').unwrap().0))
    };
    text.lines().map(range).collect()
}

#[test]
fn no_region_touches_another_mapping() {
    let layout = core::alloc::Layout::new::<u64>();
    let cache = Cache::new("window", layout, Options::default()).unwrap();
    let object = cache.alloc().unwrap();
    for pair in REGIONS.windows(2) {
        assert!(pair[1].base() >= pair[0].base() + pair[0].limit() + GUARD_BYTES);
    }
    let mapped = mapped();
    for region in REGIONS {
        // Another test may have made it grow since then.
        let (base, bytes) = (region.base(), region.mapped.load(Ordering::Relaxed));
        assert!(mapped.iter().all(|(_, end)| *end != base), "before {base:#x}");
        let is_free = bytes == 0 || mapped.iter().all(|(begin, _)| *begin != base + bytes);
        assert!(is_free, "after {base:#x} and {bytes} bytes");
    }
    // SAFETY: from this cache.
    unsafe { cache.free(object) };
}

/// A region of its own, of some pages in an unused place.
fn region() -> Region {
    let region = Region::new();
    let [range, _] = Area::Windows.ranges();
    let place = Places::new(Area::Spaces).next(range.len() / 2);
    region.base.store(range.start + place, Ordering::Relaxed);
    region.limit.store(1 << 20, Ordering::Relaxed);
    region
}

#[test]
fn a_region_grows_to_its_limit_and_back() {
    let (region, page) = (region(), map::page_bytes());
    assert_eq!(region.grow_to(page + 1), Exactly::Mapped);
    let mapped = region.mapped();
    assert_eq!(region.grow_to(1 << 20), Exactly::Mapped);
    assert_eq!(region.grow_to((1 << 20) + 1), Exactly::Refused);
    region.shrink_to(mapped);
    let end = region.base() + mapped;
    assert!(map::reserve_exactly(end, page), "what was added is not mapped any more");
    assert_eq!(region.grow_to(1 << 20), Exactly::Occupied);
    // SAFETY: mapped by this test.
    unsafe { map::unmap(end, page) };
    region.shrink_to(0);
}
