//! `remote`: objects are allocated on one thread and freed on another, and travel between them
//! through a bounded queue.
//!
//! - `1to1`: one producer, one consumer.
//! - `1to1-read`: the same, but the consumer reads the object before it frees it, so that the
//!   object's memory changes hands whether the allocator looks at it or not.
//! - `1toN`: one producer deals out to N consumers in turn.
//! - `Nto1`: one consumer collects from N producers in turn.
//!
//! The row is wall-clock time from the common start until the last object is freed, per object. The
//! contender `floor` sends one and the same address and frees nothing: it is the cost of the queue.

use alloc::sync::Arc;
use core::hint::black_box;
use std::time::Instant;

use super::crew::{Crew, Gate};
use super::ring::{Consumer, Producer, Ring};
use super::{Job, Table, per_operation, touch};
use crate::contender::Contender;
use crate::failure::Failure;
use crate::measure::Sampler;

/// Objects in a sample, through all queues together.
const OBJECTS: usize = 40_000;

/// Four workloads for each size.
pub(crate) fn jobs(sizes: &[usize], threads: usize) -> Vec<Job> {
    let variants =
        [("1to1", 1), ("1to1-read", 1), ("1toN", threads.max(1)), ("Nto1", threads.max(1))];
    let job =
        |(variant, threads): (&str, usize), size| Job::new(Table::Remote, variant, size, threads);
    variants.iter().flat_map(|v| sizes.iter().map(|size| job(*v, *size))).collect()
}

/// What the threads of a sample share.
struct Course<C> {
    contender: C,
    size: usize,
    /// One for each of the N threads on the side that has N.
    rings: Vec<Ring>,
    /// Objects through each ring.
    each: usize,
    /// One thread sends to all rings; otherwise one receives from all.
    one_sends: bool,
    consumer_reads: bool,
}

/// Takes samples of one number: an object's way.
pub(crate) fn sampler<C: Contender>(job: &Job, contender: C) -> Result<Sampler, Failure> {
    let many = job.threads;
    let crew = Crew::of(many + 1)?;
    let course = Arc::new(Course {
        contender,
        size: black_box(job.size.unwrap_or_default()),
        rings: (0..many).map(|_| Ring::new()).collect(),
        each: OBJECTS / many,
        one_sends: job.variant != "Nto1",
        consumer_reads: job.variant.ends_with("-read"),
    });
    Ok(Box::new(move || {
        let gate = Gate::new(many + 1);
        let course = Arc::clone(&course);
        let times = crew.run(move |worker| {
            course.contender.enter_thread();
            gate.pass();
            let start = Instant::now();
            course.work(worker);
            start.elapsed()
        });
        let longest = times.into_iter().max().unwrap_or_default();
        Ok(vec![per_operation(longest, OBJECTS / many * many)])
    }))
}

impl<C: Contender> Course<C> {
    /// Worker 0 is the single one, the others are the many.
    fn work(&self, worker: usize) {
        let alone = worker == 0;
        let rings = if alone { &self.rings[..] } else { &self.rings[worker - 1..worker] };
        if alone == self.one_sends {
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
                let object = self.contender.alloc(self.size);
                if C::HAS_MEMORY {
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
                if C::HAS_MEMORY && self.consumer_reads {
                    // SAFETY: the producer wrote the object and gave it away.
                    black_box(unsafe { object.read_volatile() });
                }
                // SAFETY: allocated by the producer, received once and freed once.
                unsafe { self.contender.free(object, self.size) };
            }
        }
    }
}
