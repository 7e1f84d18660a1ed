//! `batch`: allocate 10,000 objects, touching each, then free them all: in the order of
//! allocation, in reverse, or shuffled. This leaves every per-thread or per-CPU cache and shows the
//! layers below.
//!
//! Rows: `batch/ORDER/SIZE` is allocation and free together, per object; `batch-alloc/...` and
//! `batch-free/...` are the two halves. The contenders are the [`allocators`].
//!
//! `batch/cold/1m/SIZE`, `4m` and `32m`, which a quick run of the table leaves out: before each
//! batch, freed in order, the program walks over 1, 4 or 32 MiB of other data, which is not timed.
//! The contenders are `malloc` and those whose `free` finds the size.

use core::hint::black_box;

use crate::contenders::allocators::{self, Allocator, Bars, SIZES, Workload, touch};
use crate::harness::{Case, Failure, Options, Random, Row, SWEEPS, Sampler, Table, halves, sweep};

const OBJECTS: usize = 10_000;
/// Cycles in a sample, so that also the fastest contender's takes more than 50 microseconds.
const CYCLES: usize = 3;

/// To the best peer, cold.
const COLD_MAX: f64 = 1.0;

pub(crate) static TABLE: Table = Table {
    ours: allocators::OURS,
    sizes: Some(SIZES),
    ..Table::new(
        "batch",
        "allocate 10,000, write a byte each, free all: inorder, reverse or shuffled",
        cases,
    )
};

fn cases(options: &Options) -> Vec<Case> {
    let of = |(order, swept): (Order, usize)| {
        options.sizes.iter().map(move |size| case(Cycles { order, swept, size: *size }))
    };
    let cold = SWEEPS.map(|(name, bytes)| ((name, ORDERS[0].1), bytes));
    let cold = cold.into_iter().filter(|_| !options.few);
    ORDERS.map(|order| (order, 0)).into_iter().chain(cold).flat_map(of).collect()
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

fn case(cycles: Cycles) -> Case {
    let Cycles { order: (name, _), swept, size } = cycles;
    let cold = if swept > 0 { "cold/" } else { "" };
    let row = |part: &str| Row::sized(&format!("{part}/{cold}{name}"), size);
    let malloc = match size {
        _ if swept > 0 => Some(COLD_MAX),
        ..=64 => Some(0.80),
        _ => Some(0.65),
    };
    let rows = vec![
        (row("batch"), Bars { malloc, ..Bars::default() }),
        (row("batch-alloc"), Bars::default()),
        (row("batch-free"), Bars::default()),
    ];
    let mut case = allocators::case(rows, Some(size), cycles);
    if swept > 0 {
        case.contenders = allocators::contenders_of_malloc(cycles);
    }
    case
}

/// Batches that are freed in a random order.
pub(super) fn shuffled(size: usize) -> impl Workload {
    Cycles { order: ORDERS[2], swept: 0, size }
}

#[derive(Clone, Copy)]
struct Cycles {
    order: Order,
    /// Bytes that are walked over before each cycle.
    swept: usize,
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
            let halves =
                halves((CYCLES, OBJECTS), &mut objects, || sweep(self.swept), allocate, free);
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
