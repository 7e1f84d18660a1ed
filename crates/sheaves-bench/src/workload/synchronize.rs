//! `synchronize`: waiting for readers, alone and with others.
//!
//! | workload | who waits |
//! |---|---|
//! | `alone` | one thread, 1,000 times in a row, while no thread reads |
//! | `10x1000` | ten threads, 1,000 times each: allocate an object, wait, free it |
//! | `10x1000+flood` | the same, while the thread of `callback` runs 10,000 callbacks in a circle |
//! | `10x1000+call_rcu` | the same, while each contender's own `call_rcu` does |
//! | `10x100000` | ten threads, 100,000 times each |
//! | `waiters/N` | as `10x1000` with N threads, each a number of times in a row |
//! | `registered/N` | one thread, while N others have registered as readers and sleep |
//!
//! `10x1000` is the test behind the published result for Linux's direct wake-up: ten workers of its
//! test of vmalloc. Every thread that waits has registered as a reader, as most threads of a
//! program that reads have. Rows of one workload are the [`MEASURES`].

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::hint::black_box;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Barrier;
use std::time::Instant;

use super::crew::Crew;
use super::flood::Flood;
use super::measures::{self, Measure, Measured};
use super::{Job, Table, name};
use crate::contender::Kind;
use crate::contender::wait::{self, Queue, Wait};
use crate::failure::Failure;
use crate::measure::Sampler;
use crate::stats::{mean, percentile, standard_deviation};

/// What is measured of a workload: what is added to the first part of its name, and the unit.
///
/// The first is the mean of all calls. `total` is from the start of the first thread to the end of
/// the last, `worst` the time of the slowest thread, `spread` the standard deviation of the times
/// of threads to their mean, and `range` the slowest's less the fastest's. `callbacks` are those of
/// the flood that were called meanwhile.
pub(crate) const MEASURES: [Measure; 11] = [
    ("", "ns/op"),
    ("-p50", "ns/op"),
    ("-p99", "ns/op"),
    ("-max", "ns/op"),
    ("-total", "ns"),
    ("-worst", "ns"),
    ("-spread", "%"),
    ("-range", "ns"),
    ("-periods", "grace periods"),
    ("-membarriers", "membarriers"),
    ("-callbacks", "callbacks"),
];

/// First parts of the names of workloads.
pub(crate) const PARTS: [&str; 7] =
    ["alone", "10x1000", "10x1000+flood", "10x1000+call_rcu", "10x100000", "waiters", "registered"];
/// Numbers of waiters, and how often each waits: many as often as some, so that the start of a
/// thread weighs the same.
const WAITERS: [(usize, usize); 3] = [(1, 1000), (64, 100), (500, 100)];
/// Numbers of registered threads.
const REGISTERED: [usize; 4] = [10, 100, 1000, 10_000];
/// Registered threads at most.
pub(crate) const REGISTERED_MAX: usize = 10_000;
/// Calls of the thread that waits while others are registered.
const REGISTERED_CALLS: usize = 100;
/// Callbacks of the flood.
const FLOOD: usize = 10_000;
/// Bytes of the object that a worker frees.
const OBJECT_BYTES: usize = 40;

/// Every workload, with up to `threads` registered threads. A thread that has read stays known to
/// Sheaves until it ends, so that workloads with many threads come last.
pub(crate) fn jobs(threads: usize, quick: bool) -> Vec<Job> {
    let job = |part: &str, size, threads| Job::new(Table::Synchronize, part, size, threads);
    let mut registered: Vec<usize> = REGISTERED.into_iter().filter(|n| *n < threads).collect();
    if quick {
        registered.clear();
    }
    registered.push(threads);
    let [alone, ten @ .., waiters, many] = PARTS;
    [job(alone, None, 1)]
        .into_iter()
        .chain(ten.map(|part| job(part, None, 10)))
        .chain(WAITERS.map(|(count, _)| job(waiters, Some(count), count)))
        .chain(registered.into_iter().map(|count| job(many, Some(count), count)))
        .collect()
}

/// The rows of a workload.
pub(crate) fn rows(job: &Job) -> Vec<String> {
    let row = |(suffix, _)| name::join(&format!("{}{suffix}", job.variant), "", job.size);
    MEASURES.map(row).to_vec()
}

/// The workload and the measure of a row of this table.
pub(crate) fn measured(row: &str) -> Option<Measured> {
    measures::find(row, &PARTS, &MEASURES)
}

/// Whether a contender takes part: the older forms not where no other thread waits, nor beside a
/// flood that is not theirs; liburcu not beside theirs; and few where a sample takes seconds.
pub(crate) fn admits(job: &Job, kind: Kind) -> bool {
    let is_older = [Kind::Callback, Kind::Prototype].contains(&kind);
    let [_, _, flood, call_rcu, long, _, registered] = PARTS;
    match job.variant.as_str() {
        part if part == flood => is_older || kind == Kind::Direct,
        part if part == call_rcu || part == registered => !is_older,
        part if part == long => ["direct", "liburcu-bp"].contains(&kind.name()),
        _ => true,
    }
}

/// Takes samples: one run of the whole workload each.
pub(crate) fn sampler(job: &Job, kind: Kind) -> Result<Sampler, Failure> {
    wait::visit(kind, Prepare { job })?
}

struct Prepare<'a> {
    job: &'a Job,
}

impl wait::Visitor for Prepare<'_> {
    type Out = Result<Sampler, Failure>;

    fn visit<C: Wait>(self, contender: C) -> Self::Out {
        let contender = Arc::new(contender);
        let threads = self.job.threads;
        let [alone, plain, flood, call_rcu, long, waiters, registered] = PARTS;
        let calls_of = |count: usize| WAITERS.iter().find(|(n, _)| *n == count).map(|(_, n)| *n);
        let part = self.job.variant.as_str();
        let ten = Plan { workers: 10, calls: 1000, frees: true, flood: None };
        let one = Plan { workers: 1, calls: REGISTERED_CALLS, frees: false, flood: None };
        let plan = match part {
            _ if part == alone => Plan { calls: 1000, ..one },
            _ if part == plain => ten,
            _ if part == flood => Plan { flood: Some(Queue::Older), ..ten },
            _ if part == call_rcu => Plan { flood: Some(Queue::Own), ..ten },
            _ if part == long => Plan { calls: 100_000, ..ten },
            _ if part == waiters => Plan {
                workers: threads,
                calls: calls_of(threads).unwrap_or(REGISTERED_CALLS),
                ..ten
            },
            _ => one,
        };
        // Kept by the sampler: its threads are registered as long as it lasts.
        let idle = (part == registered).then(|| Idle::enter(&contender, threads)).transpose()?;
        let crew = Crew::of(plan.workers + usize::from(plan.flood.is_some()))?;
        Ok(Box::new(move || {
            let _ = &idle;
            Ok(plan.run(&crew, &contender))
        }))
    }
}

/// Threads that have registered as readers, and sleep.
struct Idle<C: Wait> {
    contender: Arc<C>,
    crew: Rc<Crew>,
}

impl<C: Wait> Idle<C> {
    fn enter(contender: &Arc<C>, threads: usize) -> Result<Idle<C>, Failure> {
        let idle = Idle { contender: Arc::clone(contender), crew: Crew::of(threads)? };
        let contender = Arc::clone(contender);
        idle.crew.run(move |_| {
            contender.enter_thread();
            contender.pause();
        });
        Ok(idle)
    }
}

impl<C: Wait> Drop for Idle<C> {
    fn drop(&mut self) {
        let contender = Arc::clone(&self.contender);
        self.crew.run(move |_| {
            contender.resume();
            contender.leave_thread();
        });
    }
}

/// Who does what how often in a sample.
#[derive(Clone, Copy, Debug)]
struct Plan {
    workers: usize,
    calls: usize,
    /// Whether each call stands between an allocation and a free.
    frees: bool,
    /// Where callbacks are queued meanwhile, [`FLOOD`] at any time.
    flood: Option<Queue>,
}

/// What a worker brings back.
struct Worked {
    start: Instant,
    end: Instant,
    calls: Vec<u64>,
}

impl Worked {
    fn time(&self) -> Duration {
        self.end - self.start
    }
}

impl Plan {
    fn run<C: Wait>(self, crew: &Crew, contender: &Arc<C>) -> Vec<f64> {
        let queue = Arc::clone(contender);
        let to = self.flood.unwrap_or(Queue::Own);
        // SAFETY: objects of a flood are fresh, and given up when they are queued.
        let flood = Arc::new(Flood::new(Box::new(move |object| unsafe { queue.call(to, object) })));
        let working = Arc::new(AtomicUsize::new(self.workers));
        let called = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&called);
        let start = Arc::new(Barrier::new(crew.len()));
        let before = contender.counts();
        let own = Arc::clone(contender);
        let worked = crew.run(move |index| {
            if index == self.workers {
                // What is queued before the start is there when the workers begin.
                own.enter_thread();
                (0..FLOOD).for_each(|_| flood.queue());
                own.leave_thread();
                // Relaxed, here and below: counts; the gate and the flood's lock order.
                counted.store(flood.ended(), Ordering::Relaxed);
                start.wait();
                flood.wait();
                return None;
            }
            let worked = self.work(&*own, &start);
            if working.fetch_sub(1, Ordering::Relaxed) == 1 {
                let before = counted.load(Ordering::Relaxed);
                counted.store(flood.ended() - before, Ordering::Relaxed);
                flood.end();
            }
            Some(worked)
        });
        let after = contender.counts();
        let worked: Vec<Worked> = worked.into_iter().flatten().collect();
        let mut values = summarize(&worked);
        match (before, after) {
            (Some(before), Some(after)) => {
                values.extend(
                    before.iter().zip(after).map(|(before, after)| (after - before) as f64),
                );
            }
            // Who does not count has no such row.
            _ => values.extend([f64::NAN; 2]),
        }
        values.push(called.load(Ordering::Relaxed) as f64);
        values
    }

    fn work<C: Wait>(self, contender: &C, gate: &Barrier) -> Worked {
        let mut calls = vec![0; self.calls];
        contender.enter_thread();
        contender.pause();
        gate.wait();
        contender.resume();
        let start = Instant::now();
        for call in &mut calls {
            let object = self.frees.then(|| black_box(Box::new([14_u8; OBJECT_BYTES])));
            let begin = Instant::now();
            contender.synchronize();
            *call = begin.elapsed().as_nanos() as u64;
            drop(object);
        }
        let end = Instant::now();
        contender.leave_thread();
        Worked { start, end, calls }
    }
}

/// The measures but the last three, in their order.
fn summarize(worked: &[Worked]) -> Vec<f64> {
    let mut calls: Vec<f64> =
        worked.iter().flat_map(|worked| worked.calls.iter().map(|ns| *ns as f64)).collect();
    calls.sort_by(f64::total_cmp);
    let times: Vec<f64> = worked.iter().map(|worked| worked.time().as_nanos() as f64).collect();
    let slowest = times.iter().copied().fold(0.0, f64::max);
    let fastest = times.iter().copied().fold(f64::INFINITY, f64::min);
    let start = worked.iter().map(|worked| worked.start).min();
    let end = worked.iter().map(|worked| worked.end).max();
    let total = start.zip(end).map_or(0, |(start, end)| (end - start).as_nanos());
    vec![
        mean(&calls),
        percentile(&calls, 0.5),
        percentile(&calls, 0.99),
        calls.last().copied().unwrap_or_default(),
        total as f64,
        slowest,
        100.0 * standard_deviation(&times) / mean(&times),
        slowest - fastest,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_named_by_workload_and_measure() {
        let jobs = jobs(REGISTERED_MAX, false);
        let rows: Vec<_> = jobs.iter().flat_map(rows).collect();
        for row in ["10x1000", "10x1000+flood-worst", "waiters-p99/500", "registered/10000"] {
            assert!(rows.iter().any(|known| known == row), "{row} is missing in {rows:?}");
        }
    }

    #[test]
    fn threads_are_summed_up() {
        let start = Instant::now();
        let worked = |us: u64, calls: [u64; 2]| Worked {
            start,
            end: start + Duration::from_micros(us),
            calls: calls.to_vec(),
        };
        let values = summarize(&[worked(9, [1000, 3000]), worked(11, [5000, 7000])]);
        assert_eq!(values, [4000.0, 4000.0, 6940.0, 7000.0, 11_000.0, 11_000.0, 10.0, 2000.0]);
    }

    #[test]
    fn few_are_registered_where_few_are_asked_for() {
        let names = |threads, quick| -> Vec<_> {
            let jobs = jobs(threads, quick);
            jobs.iter().map(Job::name).filter(|name| name.starts_with("registered")).collect()
        };
        assert_eq!(names(50, false), ["registered/10", "registered/50"]);
        assert_eq!(names(10_000, true), ["registered/10000"]);
    }
}
