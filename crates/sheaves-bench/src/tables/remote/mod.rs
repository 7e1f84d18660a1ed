//! `remote`: objects are allocated on one thread and freed on another, and travel between them
//! through a bounded queue.
//!
//! - `1to1`: one producer, one consumer.
//! - `1to1-read`: the same, but the consumer reads the object before it frees it, so that the
//!   object's memory changes hands whether the allocator looks at it or not.
//! - `1toN`: one producer deals out to N consumers in turn.
//! - `Nto1`: one consumer collects from N producers in turn.
//!
//! A row is wall-clock time from the common start until the last object is freed, per object. The
//! contenders are the [`allocators`], and `floor`, which sends one and the same address and frees
//! nothing: it is the cost of the queue.

use alloc::sync::Arc;
use core::hint::black_box;
use core::ptr::NonNull;
use std::time::Instant;

use crate::contenders::allocators::{self, Allocator, Bars, SIZES, Workload, touch};
use crate::harness::{
    Case, Consumer, Failure, Options, Producer, Ring, Row, Sampler, SpinBarrier, Table, Workers,
    per_operation,
};

/// Objects in a sample, through all queues together.
const OBJECTS: usize = 40_000;

pub(crate) static TABLE: Table = Table {
    ours: allocators::OURS,
    sizes: Some(SIZES),
    ..Table::new(
        "remote",
        "allocate here, free on another thread: 1to1, 1to1-read, 1toN, Nto1; --threads is N",
        cases,
    )
};

fn cases(options: &Options) -> Vec<Case> {
    let of = |path: Path| {
        let many = if path.has_many { options.threads } else { 1 };
        options.sizes.iter().map(move |size| case(Course { path, many, size: *size }))
    };
    PATHS.into_iter().flat_map(of).collect()
}

#[derive(Clone, Copy, Debug)]
struct Path {
    name: &'static str,
    /// Whether one side has N threads.
    has_many: bool,
    /// Whether the single thread is the one that sends.
    one_sends: bool,
    reads: bool,
}

const ONE_TO_ONE: Path = Path { name: "1to1", has_many: false, one_sends: true, reads: false };
const PATHS: [Path; 4] = [
    ONE_TO_ONE,
    Path { name: "1to1-read", reads: true, ..ONE_TO_ONE },
    Path { name: "1toN", has_many: true, ..ONE_TO_ONE },
    Path { name: "Nto1", has_many: true, one_sends: false, ..ONE_TO_ONE },
];

fn case(course: Course) -> Case {
    let row = Row::sized(&format!("remote/{}", course.path.name), course.size);
    let rows = vec![(row, bars(course.path, course.size))];
    let mut case = allocators::case(rows, Some(course.size), course);
    case.contenders.push(course.contender("floor", || Floor));
    case
}

fn bars(path: Path, size: usize) -> Bars {
    let at_most = match size {
        64 if path.name == ONE_TO_ONE.name => Some(1.10),
        1024.. if path.name == ONE_TO_ONE.name => Some(0.90),
        _ => None,
    };
    Bars { cache: at_most, sized: at_most, malloc: at_most, cache_to_locked: None }
}

#[derive(Clone, Copy)]
struct Course {
    path: Path,
    /// Threads on the side that has N.
    many: usize,
    size: usize,
}

impl Workload for Course {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let many = self.many;
        let workers = Workers::of(many + 1)?;
        let shared = Arc::new(Shared {
            allocator,
            course: Course { size: black_box(self.size), ..self },
            rings: (0..many).map(|_| Ring::new()).collect(),
            each: OBJECTS / many,
        });
        Ok(Box::new(move || {
            let barrier = SpinBarrier::new(many + 1);
            let shared = Arc::clone(&shared);
            let times = workers.run(move |worker| {
                shared.allocator.enter_thread();
                barrier.wait();
                let start = Instant::now();
                shared.work(worker);
                start.elapsed()
            });
            let longest = times.into_iter().max().unwrap_or_default();
            Ok(vec![per_operation(longest, OBJECTS / many * many)])
        }))
    }
}

struct Shared<A> {
    allocator: A,
    course: Course,
    /// One for each of the N threads on the side that has N.
    rings: Vec<Ring>,
    each: usize,
}

impl<A: Allocator> Shared<A> {
    /// Worker 0 is the single one, the others are the many.
    fn work(&self, worker: usize) {
        let alone = worker == 0;
        let rings = if alone { &self.rings[..] } else { &self.rings[worker - 1..worker] };
        if alone == self.course.path.one_sends {
            let mut producers: Vec<_> = rings.iter().map(Ring::producer).collect();
            self.send(&mut producers);
        } else {
            let mut consumers: Vec<_> = rings.iter().map(Ring::consumer).collect();
            self.receive(&mut consumers);
        }
    }

    #[inline(never)]
    fn send(&self, producers: &mut [Producer<'_>]) {
        for _ in 0..self.each {
            for producer in &mut *producers {
                let object = self.allocator.alloc(self.course.size);
                if A::HAS_MEMORY {
                    touch(object);
                }
                producer.push(object);
            }
        }
    }

    #[inline(never)]
    fn receive(&self, consumers: &mut [Consumer<'_>]) {
        for _ in 0..self.each {
            for consumer in &mut *consumers {
                let object = consumer.pop();
                if A::HAS_MEMORY && self.course.path.reads {
                    // SAFETY: the producer wrote the object and gave it away.
                    black_box(unsafe { object.read_volatile() });
                }
                // SAFETY: allocated by the producer, received once and freed once.
                unsafe { self.allocator.free(object, self.course.size) };
            }
        }
    }
}

/// `floor`: hands out one and the same address, so that only the queue is measured.
struct Floor;

impl Allocator for Floor {
    const HAS_MEMORY: bool = false;

    #[inline]
    fn alloc(&self, _size: usize) -> *mut u8 {
        NonNull::dangling().as_ptr()
    }

    #[inline]
    unsafe fn free(&self, _object: *mut u8, _size: usize) {}
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_remote.rs"]
mod tests;
