//! Uses up the mappings that a process may have (`vm.max_map_count`). Also used by tests of other
//! crates.

use core::ffi::c_void;
use core::ptr::null_mut;

pub(crate) const PAGE: usize = 4 << 10;

/// Bytes of all mappings of the process.
#[allow(dead_code, reason = "not every program counts them")]
pub(crate) fn bytes() -> usize {
    let numbers = std::fs::read_to_string("/proc/self/statm").unwrap();
    numbers.split(' ').next().unwrap().parse::<usize>().unwrap() * PAGE
}

/// Makes mappings, each different from its neighbours, until the kernel refuses.
pub(crate) fn exhaust() -> (*mut c_void, usize) {
    let bytes = 1 << 34;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, which replaces nothing.
    let place = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    assert_ne!(place, libc::MAP_FAILED);
    for offset in (PAGE..bytes).step_by(2 * PAGE) {
        // SAFETY: a page of the mapping, which is not used.
        let status =
            unsafe { libc::mprotect(place.wrapping_byte_add(offset), PAGE, libc::PROT_READ) };
        if status != 0 {
            // The first of two splits may have succeeded: there is no room for another one now.
            return (place, bytes);
        }
    }
    panic!("there is no limit");
}

/// True where making that number of mappings is fast.
pub(crate) fn is_limit_near() -> bool {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let limit: usize = text.trim().parse().unwrap();
    let is_near = limit <= 300_000;
    if !is_near {
        println!("a process may have {limit} mappings: too many to try");
    }
    is_near
}
