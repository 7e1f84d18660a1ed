//! `batch`: allocate 10,000 objects, touching each, then free them all: in the order of
//! allocation, in reverse, or shuffled. This leaves every per-thread or per-CPU cache and shows the
//! layers below.
//!
//! Rows: `batch` is allocation and free together, per object; `batch-alloc` and `batch-free` are
//! the two halves.

use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use super::{Job, OBJECTS, Table, per_operation, touch};
use crate::contender::Contender;
use crate::failure::Failure;
use crate::measure::{Sampler, Shuffle};

/// Cycles in a sample, so that also the fastest contender's takes more than 50 microseconds.
const CYCLES: usize = 3;

const VARIANTS: [&str; 3] = ["inorder", "reverse", "shuffled"];

/// One workload for each order of freeing and each size.
pub(crate) fn jobs(sizes: &[usize]) -> Vec<Job> {
    let job = |variant: &str, size| Job::new(Table::Batch, variant, size, 1);
    VARIANTS.iter().flat_map(|v| sizes.iter().map(|size| job(v, *size))).collect()
}

/// In which order the objects are freed: positions in the order of their allocation.
fn order_of(variant: &str) -> Vec<u32> {
    let mut order: Vec<u32> = (0..OBJECTS as u32).collect();
    match variant {
        "reverse" => order.reverse(),
        "shuffled" => Shuffle::new(OBJECTS as u64).shuffle(&mut order),
        _ => {}
    }
    order
}

/// Takes samples of three numbers: the whole, the allocations, the frees.
pub(crate) fn sampler<C: Contender>(job: &Job, contender: C) -> Result<Sampler, Failure> {
    let size = job.size.unwrap_or_default();
    let order = order_of(&job.variant);
    let mut objects = vec![core::ptr::null_mut(); OBJECTS];
    Ok(Box::new(move || {
        contender.enter_thread();
        let size = black_box(size);
        let (mut alloc, mut free) = (Duration::ZERO, Duration::ZERO);
        for cycle in 0..=CYCLES {
            let start = Instant::now();
            fill(&contender, size, &mut objects);
            let middle = Instant::now();
            empty(&contender, size, &objects, &order);
            let end = Instant::now();
            // The first cycle brings the contender's own memory back into the caches.
            if cycle > 0 {
                alloc += middle - start;
                free += end - middle;
            }
        }
        let each = |time| per_operation(time, OBJECTS * CYCLES);
        Ok(vec![each(alloc + free), each(alloc), each(free)])
    }))
}

#[inline(never)]
fn fill<C: Contender>(contender: &C, size: usize, objects: &mut [*mut u8]) {
    for place in objects {
        let object = contender.alloc(size);
        touch(object);
        *place = object;
    }
}

#[inline(never)]
fn empty<C: Contender>(contender: &C, size: usize, objects: &[*mut u8], order: &[u32]) {
    for place in order {
        // SAFETY: `fill` allocated them all, and the order names each place once.
        unsafe { contender.free(objects[*place as usize], size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_order_names_every_place_once() {
        for variant in VARIANTS {
            let mut order = order_of(variant);
            order.sort_unstable();
            assert!(order.iter().enumerate().all(|(place, entry)| place == *entry as usize));
        }
        assert_eq!(order_of("reverse")[0] as usize, OBJECTS - 1);
        assert_ne!(order_of("shuffled"), order_of("inorder"));
    }
}
