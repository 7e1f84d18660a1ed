//! `pair`: allocate an object, touch it, free it at once. Everything stays in the nearest cache, so
//! this is the bare path length of both operations together.
//!
//! Rows are `pair/SIZE`; the contenders are the [`allocators`]. Three more parts, which a quick run
//! of the table leaves out, have `malloc` and those whose `free` finds the size:
//!
//! - `pair/eight/SIZE`: eight objects are allocated and then freed in this order, each pair.
//! - `pair/touched/SIZE`: each byte of the object is written, 64 bytes to 32 KiB.
//! - `pair/cold/1m/SIZE`, `4m` and `32m`: before each pair, which is timed alone, the program walks
//!   over 1, 4 or 32 MiB of other data. The figure includes that of reading the clock.

use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use crate::contenders::allocators::{self, Allocator, Bars, SIZES, Workload, touch};
use crate::harness::{Case, Failure, Options, Row, SWEEPS, Sampler, Table, per_operation, sweep};

/// Pairs in a sample: at two nanoseconds each, 80 microseconds.
const PAIRS: usize = 40_000;
const PAIRS_UNTIMED: usize = 1000;

/// Objects of `eight`, which are all allocated before the first is freed.
const ALIVE: usize = 8;

/// Sizes of which each byte is written.
const TOUCHED_MIN: usize = 64;
const TOUCHED_MAX: usize = 32 << 10;
/// Bytes that are walked over in a sample, and pairs in one at the most.
const SWEPT_BYTES: usize = 128 << 20;
const COLD_MAX: usize = 64;
/// To the best peer, touched and cold.
const MALLOC_MAX: f64 = 1.0;

pub(crate) static TABLE: Table = Table {
    ours: allocators::OURS,
    sizes: Some(SIZES),
    ..Table::new("pair", "allocate an object, write a byte, free it at once", cases)
};

fn cases(options: &Options) -> Vec<Case> {
    let sizes = &options.sizes;
    let plain = sizes.iter().map(|size| {
        let row = (Row::sized("pair", *size), bars(*size));
        allocators::case(vec![row], Some(*size), Pairs { size: *size, work: Work::Plain })
    });
    if options.few {
        return plain.collect();
    }
    let of_malloc = |part: &str, size, work| {
        allocators::case_of_malloc(Row::sized(part, size), MALLOC_MAX, Pairs { size, work })
    };
    let has_largest = sizes.contains(SIZES.range.end());
    let eight = sizes.iter().map(|size| of_malloc("pair/eight", *size, Work::Eight));
    let touched = sizes.iter().copied().filter(|size| *size >= TOUCHED_MIN);
    let touched = touched.chain(has_largest.then_some(TOUCHED_MAX));
    let touched = touched.map(|size| of_malloc("pair/touched", size, Work::Touched));
    let cold = SWEEPS.into_iter().flat_map(|(name, swept)| {
        let part = format!("pair/cold/{name}");
        sizes.iter().map(move |size| of_malloc(&part, *size, Work::Cold(swept)))
    });
    plain.chain(eight).chain(touched).chain(cold).collect()
}

fn bars(size: usize) -> Bars {
    let malloc = match size {
        ..=1024 => Some(1.0),
        4096.. => Some(0.70),
        _ => None,
    };
    Bars { cache: Some(0.75), sized: Some(0.95), malloc, cache_to_locked: None }
}

/// Pairs of objects of which one byte is written.
pub(super) fn plain(size: usize) -> impl Workload {
    Pairs { size, work: Work::Plain }
}

#[derive(Clone, Copy)]
struct Pairs {
    size: usize,
    work: Work,
}

#[derive(Clone, Copy)]
enum Work {
    Plain,
    Eight,
    Touched,
    /// Bytes that are walked over before each pair.
    Cold(usize),
}

impl Workload for Pairs {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        Ok(Box::new(move || {
            allocator.enter_thread();
            // The size is a variable to the compiler, as it is to most callers of an allocator.
            let size = black_box(self.size);
            let (time, count) = match self.work {
                Work::Plain => {
                    pairs(&allocator, size, PAIRS_UNTIMED, |object, _| touch(object));
                    (pairs(&allocator, size, PAIRS, |object, _| touch(object)), PAIRS)
                }
                Work::Eight => {
                    eights(&allocator, size, PAIRS_UNTIMED);
                    (eights(&allocator, size, PAIRS), PAIRS)
                }
                Work::Touched => {
                    let count = PAIRS * TOUCHED_MIN / size;
                    pairs(&allocator, size, count.div_ceil(8), fill);
                    (pairs(&allocator, size, count, fill), count)
                }
                Work::Cold(bytes) => {
                    let count = (SWEPT_BYTES / bytes).min(COLD_MAX);
                    let cold = |_| {
                        sweep(bytes);
                        pairs(&allocator, size, 1, |object, _| touch(object))
                    };
                    ((0..count).map(cold).sum(), count)
                }
            };
            Ok(vec![per_operation(time, count)])
        }))
    }
}

#[inline(never)]
fn pairs<A: Allocator>(
    allocator: &A,
    size: usize,
    count: usize,
    write: impl Fn(*mut u8, usize),
) -> Duration {
    let start = Instant::now();
    for _ in 0..count {
        let object = allocator.alloc(size);
        write(object, size);
        // SAFETY: allocated above and freed once.
        unsafe { allocator.free(object, size) };
    }
    start.elapsed()
}

/// `count` pairs, a multiple of [`ALIVE`].
#[inline(never)]
fn eights<A: Allocator>(allocator: &A, size: usize, count: usize) -> Duration {
    let start = Instant::now();
    for _ in 0..count / ALIVE {
        let objects = [(); ALIVE].map(|()| {
            let object = allocator.alloc(size);
            touch(object);
            object
        });
        for object in objects {
            // SAFETY: allocated above and freed once.
            unsafe { allocator.free(object, size) };
        }
    }
    start.elapsed()
}

/// Writes each byte of a fresh object.
fn fill(object: *mut u8, size: usize) {
    touch(object);
    // SAFETY: the object is live and has this size.
    unsafe { object.write_bytes(14, size) };
    black_box(object);
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_pair.rs"]
mod tests;
