//! `batch`: allocate 10,000 objects, touching each, then free them all: in the order of
//! allocation, in reverse, or shuffled. This leaves every per-thread or per-CPU cache and shows the
//! layers below.
//!
//! Rows: `batch/ORDER/SIZE` is allocation and free together, per object; `batch-alloc/...` and
//! `batch-free/...` are the two halves. The contenders are the [`allocators`].

use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use crate::contenders::allocators::{self, Allocator, Bars, SIZES, Workload, touch};
use crate::harness::failure::Failure;
use crate::harness::measure::{Sampler, per_operation};
use crate::harness::random::Random;
use crate::harness::table::{Case, Options, Row, Table};

/// Objects that are live at once.
const OBJECTS: usize = 10_000;
/// Cycles in a sample, so that also the fastest contender's takes more than 50 microseconds.
const CYCLES: usize = 3;

pub(crate) static TABLE: Table = Table {
    sizes: Some(SIZES),
    ..Table::new(
        "batch",
        "allocate 10,000, write a byte each, free all: inorder, reverse or shuffled",
        cases,
    )
};

fn cases(options: &Options) -> Vec<Case> {
    let of = |order: Order| options.sizes.iter().map(move |size| case(order, *size));
    Order::ALL.into_iter().flat_map(of).collect()
}

/// The order in which objects are freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Forward,
    Reverse,
    Shuffled,
}

impl Order {
    const ALL: [Order; 3] = [Order::Forward, Order::Reverse, Order::Shuffled];

    fn name(self) -> &'static str {
        match self {
            Order::Forward => "inorder",
            Order::Reverse => "reverse",
            Order::Shuffled => "shuffled",
        }
    }

    /// Positions in the order of allocation.
    fn positions(self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..OBJECTS as u32).collect();
        match self {
            Order::Forward => {}
            Order::Reverse => order.reverse(),
            Order::Shuffled => Random::new(OBJECTS as u64).shuffle(&mut order),
        }
        order
    }
}

fn case(order: Order, size: usize) -> Case {
    let row = |part: &str| Row::sized(&format!("{part}/{}", order.name()), size);
    let malloc = Some(if size <= 64 { 0.80 } else { 0.65 });
    let rows = vec![
        (row("batch"), Bars { malloc, ..Bars::default() }),
        (row("batch-alloc"), Bars::default()),
        (row("batch-free"), Bars::default()),
    ];
    allocators::case(rows, Some(size), Cycles { order, size })
}

/// Objects of one size, freed in one order.
#[derive(Clone, Copy)]
struct Cycles {
    order: Order,
    size: usize,
}

impl Workload for Cycles {
    /// A sample is the whole, the allocations, the frees.
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let order = self.order.positions();
        let mut objects = vec![core::ptr::null_mut(); OBJECTS];
        Ok(Box::new(move || {
            allocator.enter_thread();
            let size = black_box(self.size);
            let (mut alloc, mut free) = (Duration::ZERO, Duration::ZERO);
            for cycle in 0..=CYCLES {
                let start = Instant::now();
                fill(&allocator, size, &mut objects);
                let middle = Instant::now();
                empty(&allocator, size, &objects, &order);
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
}

#[inline(never)]
fn fill<A: Allocator>(allocator: &A, size: usize, objects: &mut [*mut u8]) {
    for place in objects {
        let object = allocator.alloc(size);
        touch(object);
        *place = object;
    }
}

#[inline(never)]
fn empty<A: Allocator>(allocator: &A, size: usize, objects: &[*mut u8], order: &[u32]) {
    for place in order {
        // SAFETY: `fill` allocated them all, and the order names each place once.
        unsafe { allocator.free(objects[*place as usize], size) };
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_batch.rs"]
mod tests;
