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

mod ring;

use alloc::sync::Arc;
use core::hint::black_box;
use core::ptr::NonNull;
use std::time::Instant;

use crate::contenders::allocators::{self, Allocator, Bars, SIZES, Workload, touch};
use crate::harness::failure::Failure;
use crate::harness::measure::{Sampler, per_operation};
use crate::harness::table::{Case, Options, Row, Table};
use crate::harness::workers::{SpinBarrier, Workers};
use ring::{Consumer, Producer, Ring};

/// Objects in a sample, through all queues together.
const OBJECTS: usize = 40_000;

pub(crate) static TABLE: Table = Table {
    sizes: Some(SIZES),
    ..Table::new(
        "remote",
        "allocate here, free on another thread: 1to1, 1to1-read, 1toN, Nto1; --threads is N",
        cases,
    )
};

fn cases(options: &Options) -> Vec<Case> {
    let of = |path: Path| {
        let many = if path.has_many() { options.threads } else { 1 };
        options.sizes.iter().map(move |size| case(Course { path, many, size: *size }))
    };
    Path::ALL.into_iter().flat_map(of).collect()
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    OneToOne,
    OneToOneRead,
    OneToMany,
    ManyToOne,
}

impl Path {
    const ALL: [Path; 4] = [Path::OneToOne, Path::OneToOneRead, Path::OneToMany, Path::ManyToOne];

    fn name(self) -> &'static str {
        match self {
            Path::OneToOne => "1to1",
            Path::OneToOneRead => "1to1-read",
            Path::OneToMany => "1toN",
            Path::ManyToOne => "Nto1",
        }
    }

    fn has_many(self) -> bool {
        matches!(self, Path::OneToMany | Path::ManyToOne)
    }
}

fn case(course: Course) -> Case {
    let row = Row::sized(&format!("remote/{}", course.path.name()), course.size);
    let rows = vec![(row, bars(course.path, course.size))];
    let mut case = allocators::case(rows, Some(course.size), course);
    case.contenders.push(course.contender("floor", || Floor));
    case
}

fn bars(path: Path, size: usize) -> Bars {
    let at_most = match size {
        64 if path == Path::OneToOne => Some(1.10),
        1024.. if path == Path::OneToOne => Some(0.90),
        _ => None,
    };
    Bars { cache: at_most, sized: at_most, malloc: at_most, cache_to_locked: None }
}

/// Objects of one size on their way.
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

/// What the threads of a sample share.
struct Shared<A> {
    allocator: A,
    course: Course,
    /// One for each of the N threads on the side that has N.
    rings: Vec<Ring>,
    /// Objects through each ring.
    each: usize,
}

impl<A: Allocator> Shared<A> {
    /// Worker 0 is the single one, the others are the many.
    fn work(&self, worker: usize) {
        let alone = worker == 0;
        let one_sends = self.course.path != Path::ManyToOne;
        let rings = if alone { &self.rings[..] } else { &self.rings[worker - 1..worker] };
        if alone == one_sends {
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
        let reads = self.course.path == Path::OneToOneRead;
        for _ in 0..self.each {
            for consumer in &mut *consumers {
                let object = consumer.pop();
                if A::HAS_MEMORY && reads {
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
#[derive(Debug)]
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
