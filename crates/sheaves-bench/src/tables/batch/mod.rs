//! `batch`: allocate 10,000 objects, touching each, then free them all: in the order of
//! allocation, in reverse, or shuffled. This leaves every per-thread or per-CPU cache and shows the
//! layers below.
//!
//! Rows: `batch/ORDER/SIZE` is allocation and free together, per object; `batch-alloc/...` and
//! `batch-free/...` are the two halves. The contenders are the [`allocators`].

use core::hint::black_box;

use crate::contenders::allocators::{self, Allocator, Bars, SIZES, Workload, touch};
use crate::harness::{Case, Failure, Options, Random, Row, Sampler, Table, halves};

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
    ORDERS.into_iter().flat_map(of).collect()
}

/// An order in which objects are freed: its name, and what it makes of the order of allocation.
type Order = (&'static str, fn(&mut [u32]));

const ORDERS: [Order; 3] = [
    ("inorder", |_| {}),
    ("reverse", |order| order.reverse()),
    ("shuffled", |order| Random::new(OBJECTS as u64).shuffle(order)),
];

fn positions(order: Order) -> Vec<u32> {
    let mut positions: Vec<u32> = (0..OBJECTS as u32).collect();
    order.1(&mut positions);
    positions
}

fn case(order: Order, size: usize) -> Case {
    let row = |part: &str| Row::sized(&format!("{part}/{}", order.0), size);
    let malloc = Some(if size <= 64 { 0.80 } else { 0.65 });
    let rows = vec![
        (row("batch"), Bars { malloc, ..Bars::default() }),
        (row("batch-alloc"), Bars::default()),
        (row("batch-free"), Bars::default()),
    ];
    allocators::case(rows, Some(size), Cycles { order, size })
}

#[derive(Clone, Copy)]
struct Cycles {
    order: Order,
    size: usize,
}

impl Workload for Cycles {
    /// A sample is the whole, the allocations, the frees.
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let order = positions(self.order);
        let mut objects = vec![core::ptr::null_mut(); OBJECTS];
        Ok(Box::new(move || {
            allocator.enter_thread();
            let size = black_box(self.size);
            let allocate = |objects: &mut Vec<_>| fill(&allocator, size, objects);
            let free = |objects: &mut Vec<_>| empty(&allocator, size, objects, &order);
            let halves = halves((CYCLES, OBJECTS), &mut objects, || {}, allocate, free);
            Ok(vec![halves[0] + halves[1], halves[0], halves[1]])
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
