extern crate std;

use core::sync::atomic::Ordering;
use std::vec::Vec;

use super::{GUARD_BYTES, REGIONS};
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
        let is_free = mapped.iter().all(|(begin, _)| *begin != base + bytes);
        assert!(is_free, "after {base:#x} and {bytes} bytes");
    }
    // SAFETY: from this cache.
    unsafe { cache.free(object) };
}
