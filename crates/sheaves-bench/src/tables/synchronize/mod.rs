//! `synchronize`: waiting for readers, alone and with others.
//!
//! | row | what waits |
//! |---|---|
//! | `alone` | one thread, 1,000 times in a row, while no thread reads |
//! | `10x1000` | ten threads, 1,000 times each: allocate an object, wait, free it |
//! | `10x1000+flood` | the same, while the thread of `callback` runs 10,000 callbacks in a circle |
//! | `10x1000+call_rcu` | the same, but each contender's own `call_rcu` runs the callbacks |
//! | `10x100000` | ten threads, 100,000 times each |
//! | `waiters/N` | as `10x1000` with N threads, 1,000, 100 and 100 times in a row |
//! | `registered/N` | one thread, while N others have registered as readers and sleep |
//! | `busy/20us-8r-4u+6` | four threads, beside eight that always read, see `busy` |
//!
//! `10x1000` is the test behind the published result for Linux's direct wake-up: ten workers of its
//! test of vmalloc. Every thread that waits has registered as a reader, as most threads of a
//! program that reads have. All contenders are measured after the start of the program, for which
//! Sheaves expedites. Each case has a row for each of the [`MEASURES`], whose suffix is behind the
//! first part of the name: `waiters-p99/500`.
//!
//! | contender | what |
//! |---|---|
//! | `direct` | Sheaves: a generation of waiters is woken by one call |
//! | `callback` | the same grace periods; a thread wakes waiters by callbacks, in order |
//! | `prototype` | a list that is released as a whole, **too early** for some: for its cost alone |
//! | `liburcu-...` | its four flavours |
//!
//! `callback` in `+flood` is the "before" of the change that had Linux wake waiters directly in
//! 2024, and `direct` what it did instead. The thread of `callback` takes what is queued whenever a
//! grace period is over, and a waiter's callback has its place behind those that were queued before
//! it. In `+call_rcu` the reclaimer of Sheaves and the thread of liburcu, which sleeps for 10 ms
//! between two batches, do the same beside their own waiters.

mod busy;
mod contenders;
mod flood;
#[cfg(feature = "peers")]
mod liburcu;

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::hint::black_box;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Barrier;
use std::time::Instant;

use crate::harness::{
    Case, Contender, Effort, Failure, Judge, Measure, Options, Sampler, Table, Threads, Workers,
    mean, percentile, standard_deviation,
};
use busy::Busy;
use contenders::{Ours, Queue, Wait, Worked};
use flood::Flood;
use sheaves_history::{callback, prototype};

/// What is measured of a case; each sample lists these in their order.
const MEASURES: [Measure; 11] = [
    // The mean of all calls, their percentiles, and the longest.
    Measure("", "ns/op", "mean", 1000.0),
    Measure("-p50", "ns/op", "p50", 1000.0),
    Measure("-p99", "ns/op", "p99", 1000.0),
    Measure("-max", "ns/op", "max", 1000.0),
    // From the start of the first thread to the end of the last.
    Measure("-total", "ns", "total", 1000.0),
    // The time of the slowest thread.
    Measure("-worst", "ns", "worst", 1000.0),
    // The standard deviation of the times of threads to their mean.
    Measure("-spread", "%", "spread", 1.0),
    // The slowest thread's time less the fastest's.
    Measure("-range", "ns", "range", 1000.0),
    Measure("-periods", "grace periods", "periods", 1.0),
    Measure("-membarriers", "membarriers", "membarriers", 1.0),
    // Those of the flood that were called meanwhile.
    Measure("-callbacks", "callbacks", "callbacks", 1.0),
];

/// Registered threads at most.
const REGISTERED_MAX: usize = 10_000;
const FLOOD: usize = 10_000;
const OBJECT_BYTES: usize = 40;

/// How much faster than a wait by callback a direct one has to be while callbacks are queued: the
/// mean of all calls, and the slowest worker to the slowest. The figures published for Linux.
const DIRECT_SPEEDUP_MEAN: f64 = 2.24;
const DIRECT_SPEEDUP_WORST: f64 = 2.65;
/// The total of ten workers, and of 500 waiters, to that of the flavours of liburcu which ask
/// neither a fence nor announcements of readers.
const TOTAL_TO_LIBURCU: f64 = 0.3;
const CROWD_TO_LIBURCU: f64 = 0.6;
/// A wait of a thread that is alone, to liburcu's usual flavour.
const ALONE_TO_LIBURCU: f64 = 0.35;
/// A wait beside threads that always read, to any flavour.
const BUSY_TO_LIBURCU: f64 = 1.0;
/// The longest wait among a million of ten threads, in milliseconds.
const LONGEST_MS_MAX: f64 = 100.0;
/// A wait while 10,000 threads are registered, in microseconds.
const REGISTERED_US_MAX: f64 = 50.0;

pub(crate) static TABLE: Table = Table {
    ours: &["direct"],
    threads: Threads { usual: REGISTERED_MAX, range: 2..=REGISTERED_MAX },
    effort: Effort::WAITS,
    remarks: |_| {
        "\nMicroseconds for each call: mean, percentiles, longest; for all: total, slowest\n\
         thread, and that less the fastest. Standard deviation of the threads' times in\n\
         percent. Grace periods and membarriers, where they are counted. All are medians.\n"
            .to_owned()
    },
    ..Table::new(
        "synchronize",
        "wait for readers, alone and with others; --threads is the most that register",
        cases,
    )
};

/// A thread that has read stays known to Sheaves until it ends, so that cases with many threads
/// come last.
fn cases(options: &Options) -> Vec<Case> {
    let below = |count: &usize| *count < options.threads && !options.few;
    let registered = [10, 100, 1000, 10_000].into_iter().filter(below);
    let registered = registered.chain([options.threads]).map(Workload::Registered);
    let waiters = [1, 64, 500].map(Workload::Waiters);
    let [flood, call_rcu] = [Queue::Older, Queue::Own].map(Workload::Flood);
    let first = [Workload::Alone, Workload::Ten, flood, call_rcu, Workload::Long];
    let busy = Busy::all(options).map(Workload::Busy);
    first.into_iter().chain(waiters).chain(busy).chain(registered).map(case).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    Alone,
    Ten,
    Flood(Queue),
    Long,
    Waiters(usize),
    /// One thread beside this number of them.
    Registered(usize),
    Busy(Busy),
}

fn case(workload: Workload) -> Case {
    let (part, rest) = workload.name();
    let heading = if rest.is_empty() { part.to_owned() } else { format!("{part}/{rest}") };
    let judge = move |row: &mut Judge<'_>, measure: &str| compare(row, workload, measure);
    let rows = Measure::rows(&MEASURES, (part, &rest), &heading, judge);
    Case::new(rows, contenders_of(workload))
}

fn contenders_of(workload: Workload) -> Vec<Contender> {
    let mut contenders = vec![workload.contender("direct", || Ours::new(sheaves_rcu::synchronize))];
    // The older forms not where no other thread waits, nor beside a flood that is not theirs; and
    // few where a sample takes seconds.
    let has_older = match workload {
        Workload::Flood(queue) => queue == Queue::Older,
        Workload::Long | Workload::Registered(_) | Workload::Busy(_) => false,
        _ => true,
    };
    if has_older {
        contenders.extend([
            workload.contender("callback", || Ours::new(callback::synchronize)),
            workload.contender("prototype", || Ours::new(prototype::synchronize)),
        ]);
    }
    #[cfg(feature = "peers")]
    for (name, flavour) in crate::contenders::liburcu::flavours() {
        let takes_part = match workload {
            Workload::Flood(Queue::Older) => false,
            Workload::Long => name == "liburcu-bp",
            _ => true,
        };
        if takes_part {
            let make = move || workload.sampler(liburcu::Waiter { flavour });
            contenders.push(Contender::new(name, make));
        }
    }
    contenders
}

fn compare(row: &mut Judge<'_>, workload: Workload, measure: &str) {
    let mut liburcu = |at_most: Option<f64>, bp_at_most: Option<f64>| {
        row.compare("direct", "liburcu-memb", at_most);
        row.compare("direct", "liburcu-bp", bp_at_most);
        row.compare("direct", "liburcu-mb", None);
        row.compare("direct", "liburcu-qsbr", None);
    };
    let flooded = |times: f64| (workload == Workload::Flood(Queue::Older)).then_some(1.0 / times);
    match (measure, workload) {
        ("" | "-p99", Workload::Busy(_)) => {
            for flavour in ["memb", "mb", "bp", "qsbr"] {
                row.compare("direct", &format!("liburcu-{flavour}"), Some(BUSY_TO_LIBURCU));
            }
        }
        ("", Workload::Alone) => liburcu(Some(ALONE_TO_LIBURCU), None),
        ("", _) => row.compare("direct", "callback", flooded(DIRECT_SPEEDUP_MEAN)),
        ("-worst", _) => row.compare("direct", "callback", flooded(DIRECT_SPEEDUP_WORST)),
        ("-total", Workload::Ten) => liburcu(Some(TOTAL_TO_LIBURCU), Some(TOTAL_TO_LIBURCU)),
        ("-total", Workload::Waiters(500)) => {
            liburcu(Some(CROWD_TO_LIBURCU), Some(CROWD_TO_LIBURCU));
        }
        ("-total", Workload::Alone) => {}
        ("-total", _) => liburcu(None, None),
        _ => {}
    }
    let own = row.median("direct");
    match (measure, workload) {
        ("", Workload::Registered(REGISTERED_MAX)) => {
            row.limit("direct", "1 us", own.map(|ns| ns / 1e3), REGISTERED_US_MAX);
        }
        ("-max", Workload::Long) => {
            row.limit("direct", "1 ms", own.map(|ns| ns / 1e6), LONGEST_MS_MAX);
        }
        _ => {}
    }
}

impl Workload {
    fn name(self) -> (&'static str, String) {
        let part = match self {
            Workload::Alone => "alone",
            Workload::Ten => "10x1000",
            Workload::Flood(Queue::Older) => "10x1000+flood",
            Workload::Flood(Queue::Own) => "10x1000+call_rcu",
            Workload::Long => "10x100000",
            Workload::Waiters(count) => return ("waiters", count.to_string()),
            Workload::Registered(count) => return ("registered", count.to_string()),
            Workload::Busy(busy) => return ("busy", busy.name()),
        };
        (part, String::new())
    }

    fn plan(self) -> Plan {
        let ten = Plan { workers: 10, calls: 1000, frees: true, flood: None };
        let one = Plan { workers: 1, frees: false, ..ten };
        match self {
            Workload::Alone => one,
            Workload::Ten => ten,
            Workload::Flood(queue) => Plan { flood: Some(queue), ..ten },
            Workload::Long => Plan { calls: 100_000, ..ten },
            // Many as often as some, so that the start of a thread weighs the same.
            Workload::Waiters(workers) => {
                Plan { workers, calls: if workers == 1 { 1000 } else { 100 }, ..ten }
            }
            Workload::Registered(_) | Workload::Busy(_) => Plan { calls: 100, ..one },
        }
    }

    fn contender<C: Wait>(self, name: &'static str, make: fn() -> C) -> Contender {
        Contender::new(name, move || self.sampler(make()))
    }

    fn sampler<C: Wait>(self, contender: C) -> Result<Sampler, Failure> {
        let contender = Arc::new(contender);
        if let Workload::Busy(busy) = self {
            let workers = busy.workers()?;
            return Ok(Box::new(move || {
                let before = contender.counts();
                let worked = busy.run(&workers, &contender)?;
                Ok(values(&worked, before, contender.counts(), 0))
            }));
        }
        let plan = self.plan();
        // Kept by the sampler: its threads are registered as long as it lasts.
        let idle = match self {
            Workload::Registered(threads) => Some(Idle::enter(&contender, threads)?),
            _ => None,
        };
        let workers = Workers::of(plan.workers + usize::from(plan.flood.is_some()))?;
        Ok(Box::new(move || {
            let _ = &idle;
            Ok(plan.run(&workers, &contender))
        }))
    }
}

struct Idle<C: Wait> {
    contender: Arc<C>,
    workers: Rc<Workers>,
}

impl<C: Wait> Idle<C> {
    fn enter(contender: &Arc<C>, threads: usize) -> Result<Idle<C>, Failure> {
        let idle = Idle { contender: Arc::clone(contender), workers: Workers::of(threads)? };
        let contender = Arc::clone(contender);
        idle.workers.run(move |_| {
            contender.enter_thread();
            contender.pause();
        });
        Ok(idle)
    }
}

impl<C: Wait> Drop for Idle<C> {
    fn drop(&mut self) {
        let contender = Arc::clone(&self.contender);
        self.workers.run(move |_| {
            contender.resume();
            contender.leave_thread();
        });
    }
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    workers: usize,
    calls: usize,
    /// Whether each call stands between an allocation and a free.
    frees: bool,
    /// Where callbacks are queued meanwhile, [`FLOOD`] at any time.
    flood: Option<Queue>,
}

impl Plan {
    fn run<C: Wait>(self, workers: &Workers, contender: &Arc<C>) -> Vec<f64> {
        let queue = Arc::clone(contender);
        let to = self.flood.unwrap_or(Queue::Own);
        // SAFETY: objects of a flood are fresh, and given up when they are queued.
        let flood = Arc::new(Flood::new(Box::new(move |object| unsafe { queue.call(to, object) })));
        let working = Arc::new(AtomicUsize::new(self.workers));
        let called = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&called);
        let start = Arc::new(Barrier::new(workers.len()));
        let before = contender.counts();
        let own = Arc::clone(contender);
        let worked = workers.run(move |index| {
            if index == self.workers {
                // What is queued before the start is there when the workers begin.
                own.enter_thread();
                (0..FLOOD).for_each(|_| flood.queue());
                own.leave_thread();
                // Relaxed, here and below: counts; the barrier and the flood's lock order.
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
        values(&worked, before, after, called.load(Ordering::Relaxed))
    }

    fn work<C: Wait>(self, contender: &C, start_line: &Barrier) -> Worked {
        let mut calls = vec![0; self.calls];
        contender.enter_thread();
        contender.pause();
        start_line.wait();
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

/// All measures, in their order.
fn values(
    worked: &[Worked],
    before: Option<[u64; 2]>,
    after: Option<[u64; 2]>,
    called: usize,
) -> Vec<f64> {
    let mut values = summarize(worked);
    match (before, after) {
        (Some(before), Some(after)) => {
            values.extend(before.iter().zip(after).map(|(before, after)| (after - before) as f64));
        }
        // A contender that does not count has no such row.
        _ => values.extend([f64::NAN; 2]),
    }
    values.push(called as f64);
    values
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
#[path = "../../../tests/unit/tables_synchronize.rs"]
mod tests;
