//! `pair`: allocate an object, touch it, free it at once. Everything stays in the nearest cache, so
//! this is the bare path length of both operations together.

use core::hint::black_box;
use std::time::Instant;

use super::{Job, Table, per_operation, touch};
use crate::contender::Contender;
use crate::failure::Failure;
use crate::measure::Sampler;

/// Pairs in a sample: at two nanoseconds each, 80 microseconds.
const PAIRS: usize = 40_000;
/// Pairs before the clock starts.
const PAIRS_UNTIMED: usize = 1000;

/// One workload for each size.
pub(crate) fn jobs(sizes: &[usize]) -> Vec<Job> {
    sizes.iter().map(|size| Job::new(Table::Pair, "", *size, 1)).collect()
}

/// Takes samples of one number: a pair.
pub(crate) fn sampler<C: Contender>(job: &Job, contender: C) -> Result<Sampler, Failure> {
    let size = job.size.unwrap_or_default();
    Ok(Box::new(move || {
        contender.enter_thread();
        // The size is a variable to the compiler, as it is to most callers of an allocator.
        let size = black_box(size);
        pairs(&contender, size, PAIRS_UNTIMED);
        let start = Instant::now();
        pairs(&contender, size, PAIRS);
        Ok(vec![per_operation(start.elapsed(), PAIRS)])
    }))
}

#[inline(never)]
fn pairs<C: Contender>(contender: &C, size: usize, count: usize) {
    for _ in 0..count {
        let object = contender.alloc(size);
        touch(object);
        // SAFETY: allocated above and freed once.
        unsafe { contender.free(object, size) };
    }
}
