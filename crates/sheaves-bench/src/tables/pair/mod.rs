//! `pair`: allocate an object, touch it, free it at once. Everything stays in the nearest cache, so
//! this is the bare path length of both operations together.
//!
//! Rows are `pair/SIZE`; the contenders are the [`allocators`].

use core::hint::black_box;
use std::time::Instant;

use crate::contenders::allocators::{self, Allocator, Bars, SIZES, Workload, touch};
use crate::harness::{Case, Failure, Options, Row, Sampler, Table, per_operation};

/// Pairs in a sample: at two nanoseconds each, 80 microseconds.
const PAIRS: usize = 40_000;
const PAIRS_UNTIMED: usize = 1000;

pub(crate) static TABLE: Table = Table {
    sizes: Some(SIZES),
    ..Table::new("pair", "allocate an object, write a byte, free it at once", cases)
};

fn cases(options: &Options) -> Vec<Case> {
    let case = |size: &usize| {
        let row = (Row::sized("pair", *size), bars(*size));
        allocators::case(vec![row], Some(*size), Pairs { size: *size })
    };
    options.sizes.iter().map(case).collect()
}

fn bars(size: usize) -> Bars {
    let malloc = match size {
        ..=1024 => Some(1.0),
        4096.. => Some(0.70),
        _ => None,
    };
    Bars { cache: Some(0.75), sized: Some(0.95), malloc, cache_to_locked: None }
}

#[derive(Clone, Copy)]
struct Pairs {
    size: usize,
}

impl Workload for Pairs {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        Ok(Box::new(move || {
            allocator.enter_thread();
            // The size is a variable to the compiler, as it is to most callers of an allocator.
            let size = black_box(self.size);
            pairs(&allocator, size, PAIRS_UNTIMED);
            let start = Instant::now();
            pairs(&allocator, size, PAIRS);
            Ok(vec![per_operation(start.elapsed(), PAIRS)])
        }))
    }
}

#[inline(never)]
fn pairs<A: Allocator>(allocator: &A, size: usize, count: usize) {
    for _ in 0..count {
        let object = allocator.alloc(size);
        touch(object);
        // SAFETY: allocated above and freed once.
        unsafe { allocator.free(object, size) };
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_pair.rs"]
mod tests;
