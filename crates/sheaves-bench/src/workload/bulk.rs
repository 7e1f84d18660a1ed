//! `bulk`: loops of 1,000 objects of 32, 48, 80 and 112 bytes in turn, each of which is deferred at
//! once and not touched, with one and with two threads.
//!
//! It is the kernel's performance test of `kfree_rcu` with `kfree_vary_obj_size`, the benchmark
//! behind the published result of 2020: with fewer loops, and without a nice value. The time is
//! that of the thread that ends last, as there, and does not wait for what is deferred.
//!
//! The footprint is weighted as there: it is looked at in the first loop and after each quarter but
//! the last, and each look counts as much as all before. It is taken once of the bytes that are
//! deferred, in the run that is timed, and once of the resident memory of the process, in a run
//! before it that begins with all free memory given back.

use alloc::sync::Arc;
use core::time::Duration;
use std::time::Instant;

use super::crew::{Crew, Gate};
use super::measures::{self, Measure};
use super::{Job, Table};
use crate::contender::bulk::{self, Bulk, GROUP_BYTES, SIZES};
use crate::contender::{Kind, ledger};
use crate::failure::Failure;
use crate::measure::Sampler;

/// First part of the names of rows.
pub(crate) const PART: &str = "bulk";
/// What is measured: an object, until all is free, footprint of deferred bytes and of resident
/// memory, what is deferred at the end of the timed part, and grace periods during it.
pub(crate) const MEASURES: [Measure; 6] = [
    ("", "ns/op"),
    ("-settled", "ns"),
    ("-footprint", "bytes"),
    ("-resident", "bytes"),
    ("-outstanding", "bytes"),
    ("-periods", "grace periods"),
];

/// Threads at most.
const THREADS_MAX: usize = 2;
/// Loops of a thread, a multiple of 4: enough for a dozen of the 20 ms that some collect for. Tests
/// of a debug build look at what comes out, not at how long it takes.
const LOOPS: usize = if cfg!(debug_assertions) { 2000 } else { 20_000 };
/// Objects of a loop.
const OBJECTS: usize = 1000;
/// Groups of one object of each size in a loop.
const GROUPS: usize = OBJECTS / SIZES.len();

/// Every workload.
pub(crate) fn jobs() -> Vec<Job> {
    let job = |threads| Job::new(Table::Bulk, format!("{threads}t"), None, threads);
    (1..=THREADS_MAX).map(job).collect()
}

/// The rows of a workload.
pub(crate) fn rows(job: &Job) -> Vec<String> {
    measures::rows(PART, job, &MEASURES)
}

/// Takes samples.
pub(crate) fn sampler(job: &Job, kind: Kind) -> Result<Sampler, Failure> {
    bulk::visit(kind, Prepare { job })?
}

struct Prepare<'a> {
    job: &'a Job,
}

impl bulk::Visitor for Prepare<'_> {
    type Out = Result<Sampler, Failure>;

    fn visit<C: Bulk>(self, contender: C) -> Self::Out {
        let crew = Crew::of(self.job.threads)?;
        let contender = Arc::new(contender);
        Ok(Box::new(move || {
            let _turn = ledger::turn();
            contender.trim();
            let cold = run(&crew, &contender, |_| resident_bytes())?;
            let warm = run(&crew, &contender, |contender| contender.outstanding())?;
            Ok(vec![
                warm.time.as_nanos() as f64 / (LOOPS * OBJECTS) as f64,
                warm.settled.as_nanos() as f64,
                warm.footprint,
                cold.footprint,
                warm.outstanding as f64,
                warm.periods as f64,
            ])
        }))
    }
}

/// What a thread brings back, or a run: then of the thread that ended last.
#[derive(Clone, Copy, Debug)]
struct Worked {
    end: Instant,
    time: Duration,
    footprint: f64,
    /// These are brought by the first thread.
    settled: Duration,
    outstanding: u64,
    periods: u64,
}

/// One run, with whatever the footprint is to be of.
fn run<C: Bulk>(crew: &Crew, contender: &Arc<C>, look: fn(&C) -> u64) -> Result<Worked, Failure> {
    let gate = Gate::new(crew.len());
    let contender = Arc::clone(contender);
    let worked = crew.run(move |index| {
        gate.pass();
        let before = periods();
        let mut worked = work(&*contender, look);
        gate.pass();
        let begin = Instant::now();
        let mut is_settled = true;
        if index == 0 {
            worked.outstanding = contender.outstanding();
            worked.periods = periods() - before;
            is_settled = ledger::settle(|| contender.outstanding(), || contender.finish());
            worked.settled = begin.elapsed();
        }
        gate.pass();
        is_settled.then_some(worked)
    });
    let worked = worked.into_iter().collect::<Option<Vec<Worked>>>();
    let worked =
        worked.ok_or_else(|| Failure::run("a contender does not free what is deferred"))?;
    let last = worked.iter().max_by_key(|worked| worked.end);
    let last = last.ok_or_else(|| Failure::run("nobody worked"))?;
    let Worked { settled, outstanding, periods, .. } = worked[0];
    Ok(Worked { settled, outstanding, periods, ..*last })
}

fn periods() -> u64 {
    sheaves_rcu::statistics().grace_periods
}

/// The loops of one thread.
fn work<C: Bulk>(contender: &C, look: fn(&C) -> u64) -> Worked {
    let mut footprint = Footprint::default();
    let begin = Instant::now();
    for index in 0..LOOPS {
        if index % (LOOPS / 4) == 0 {
            footprint.add(look(contender) as f64);
        }
        if C::COUNTS {
            ledger::add_deferred(GROUPS * GROUP_BYTES);
        }
        contender.repeat(GROUPS);
    }
    let end = Instant::now();
    Worked {
        end,
        time: end - begin,
        footprint: footprint.grown(),
        settled: Duration::ZERO,
        outstanding: 0,
        periods: 0,
    }
}

/// The mean in which each look counts as much as all before.
#[derive(Clone, Copy, Debug, Default)]
struct Footprint {
    looks: Option<(f64, f64)>,
}

impl Footprint {
    fn add(&mut self, bytes: f64) {
        let (first, mean) = self.looks.unwrap_or((bytes, bytes));
        self.looks = Some((first, f64::midpoint(mean, bytes)));
    }

    /// How much more it was than at the first look; 0 for less.
    fn grown(self) -> f64 {
        self.looks.map_or(0.0, |(first, mean)| (mean - first).max(0.0))
    }
}

/// Resident memory of the process; 0 where the system does not tell.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|field| field.parse::<u64>().ok());
    // SAFETY: sysconf has no precondition.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.unwrap_or(0) * u64::try_from(page_bytes).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_weigh_as_published() {
        let mut footprint = Footprint::default();
        for bytes in [8.0, 16.0, 24.0, 40.0] {
            footprint.add(bytes);
        }
        // An eighth of 8 and of 16, a quarter of 24, half of 40.
        assert!((footprint.grown() + 8.0 - 29.0).abs() < 1e-9);
        assert!(Footprint::default().grown() < 1e-9);
    }

    #[test]
    fn resident_memory_grows_with_use() {
        let before = resident_bytes();
        let memory = core::hint::black_box(vec![1_u8; 64 << 20]);
        assert!(resident_bytes() > before + (32 << 20));
        drop(memory);
    }

    #[test]
    fn a_sample_ends_with_all_free() {
        let job = jobs().remove(1);
        for kind in [Kind::Sheaves, Kind::PerObject] {
            let values = sampler(&job, kind).unwrap().sample().unwrap();
            assert!(values[0] > 0.0 && values[5] > 0.0, "{values:?}");
        }
        let _turn = ledger::turn();
        assert_eq!(ledger::outstanding(), 0);
    }
}
