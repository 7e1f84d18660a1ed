//! Places that allocate: functions that a profile tells apart, and count what they do.

use core::alloc::{GlobalAlloc, Layout};
use core::hint::black_box;
use core::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use sheaves::heap::{self, profile};
use sheaves::{Sheaves, raw};

/// Mean bytes from one sample to the next.
pub(crate) const RATE: usize = 4096;

/// The places, by their numbers in [`COUNTS`].
const FUNCTIONS: [fn() -> usize; 7] = [
    || scratch as fn(_) -> _ as usize,
    || kept as fn(_) -> _ as usize,
    || zeroed as fn(_) -> _ as usize,
    || aligned as fn(_, _) -> _ as usize,
    || resized as fn(_, _) -> _ as usize,
    || by_layout as fn(_) -> _ as usize,
    || of_cache as fn(_) -> _ as usize,
];

/// No place is longer, in bytes.
const CODE_BYTES_MAX: usize = 600;

/// What a place has allocated, and the variances of unbiased estimates of both numbers.
#[derive(Clone, Copy, Default)]
struct Count {
    objects: f64,
    bytes: f64,
    objects_variance: f64,
    bytes_variance: f64,
}

static COUNTS: Mutex<[Count; FUNCTIONS.len()]> = {
    let zero = Count { objects: 0.0, bytes: 0.0, objects_variance: 0.0, bytes_variance: 0.0 };
    Mutex::new([zero; FUNCTIONS.len()])
};

/// Counts an allocation. Since this is called last, no place ends in a jump to the allocator.
fn counted<T>(place: usize, bytes: usize, block: T) -> T {
    let (bytes, chance) = (bytes as f64, 1.0 - (-(bytes as f64) / RATE as f64).exp());
    let variance = (1.0 - chance) / chance;
    let count = &mut COUNTS.lock().unwrap_or_else(PoisonError::into_inner)[place];
    count.objects += 1.0;
    count.bytes += bytes;
    count.objects_variance += variance;
    count.bytes_variance += bytes * bytes * variance;
    block
}

#[inline(never)]
pub(crate) fn scratch(bytes: usize) -> *mut u8 {
    counted(0, bytes, black_box(heap::malloc(bytes)))
}

#[inline(never)]
pub(crate) fn kept(bytes: usize) -> *mut u8 {
    counted(1, bytes, black_box(heap::malloc(bytes)))
}

#[inline(never)]
pub(crate) fn zeroed(bytes: usize) -> *mut u8 {
    counted(2, bytes, black_box(heap::calloc(1, bytes)))
}

#[inline(never)]
pub(crate) fn aligned(align: usize, bytes: usize) -> *mut u8 {
    counted(3, bytes, black_box(heap::aligned_alloc(align, bytes)))
}

/// The block moves.
#[inline(never)]
pub(crate) fn resized(block: *mut u8, bytes: usize) -> *mut u8 {
    // SAFETY: the caller gives up the block.
    counted(4, bytes, black_box(unsafe { heap::realloc(block, bytes) }))
}

#[inline(never)]
pub(crate) fn by_layout(layout: Layout) -> *mut u8 {
    // SAFETY: the layout has a size.
    counted(5, layout.size(), black_box(unsafe { Sheaves.alloc(layout) }))
}

#[inline(never)]
pub(crate) fn of_cache(cache: &raw::Cache) -> NonNull<u8> {
    counted(6, cache.object_bytes(), black_box(cache.alloc()).expect("memory"))
}

/// Profiles a program, and compares what each place has allocated with what the profile says.
pub(crate) fn check(name: &str, program: impl FnOnce()) {
    *COUNTS.lock().unwrap() = Default::default();
    assert!(profile::start(RATE));
    program();
    let mut text = String::new();
    profile::dump(&mut text).unwrap();
    profile::stop();
    let counts = *COUNTS.lock().unwrap();
    let found = sums(&text);
    for (place, (count, found)) in counts.iter().zip(found).enumerate() {
        let what = format!("{name}, place {place}");
        assert_near(&format!("{what}: objects"), found[0], count.objects, count.objects_variance);
        assert_near(&format!("{what}: bytes"), found[1], count.bytes, count.bytes_variance);
    }
}

/// Within five per cent and three standard errors. With thousands of samples, five per
/// cent alone are several standard errors.
#[track_caller]
fn assert_near(what: &str, found: f64, expected: f64, variance: f64) {
    let bound = 0.05 * expected + 3.0 * variance.sqrt();
    assert!((found - expected).abs() <= bound, "{what}: {found}, not {expected} +- {bound}");
}

/// Objects and bytes of each place that a dump says were allocated.
fn sums(text: &str) -> [[f64; 2]; FUNCTIONS.len()] {
    let starts = FUNCTIONS.map(|start| start());
    let mut sums = [[0.0; 2]; FUNCTIONS.len()];
    for line in text.lines().filter(|line| line.starts_with("site live ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let leaf = usize::from_str_radix(words.get(9).unwrap_or(&"0"), 16).unwrap();
        let below = (0..starts.len()).filter(|place| starts[*place] < leaf);
        let Some(place) = below.max_by_key(|place| starts[*place]) else { continue };
        if leaf - starts[place] <= CODE_BYTES_MAX {
            sums[place][0] += words[7].parse::<f64>().unwrap();
            sums[place][1] += words[8].parse::<f64>().unwrap();
        }
    }
    sums
}
