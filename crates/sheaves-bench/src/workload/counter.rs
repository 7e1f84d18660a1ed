//! `counter`: adding to one number from several threads, and summing it up.
//!
//! In the variants `1t`, `2t` and so on 1, 2 ... threads add 1 repeatedly; the row is one addition,
//! averaged over the threads. `amount-1t` and so on: the same with an amount that the compiler does
//! not know. `sum/64`: 64 threads have each added once, on a slot, shard or share of its own where
//! the contender has such; the row is one sum, while no thread adds.

use alloc::sync::Arc;
use core::hint::black_box;
use core::sync::atomic::{Ordering, compiler_fence};
use std::sync::Mutex;
use std::time::Instant;

use super::crew::{Crew, Gate};
use super::{Job, Table, per_operation};
use crate::contender::Kind;
use crate::contender::count::{self, Count};
use crate::failure::Failure;
use crate::measure::Sampler;

/// Additions of each thread in a sample: at one nanosecond each, 100 microseconds.
const ADDITIONS: usize = 100_000;
/// Additions before the clock starts.
const ADDITIONS_UNTIMED: usize = 2000;
/// Sums in a sample.
const SUMS: usize = 5000;
/// Threads, and slots, of which a sum is made.
pub(crate) const SUM_SLOTS: usize = 64;
/// The variant of the sum.
const SUM: &str = "sum";

/// What the variants with an unknown amount begin with.
const AMOUNT: &str = "amount-";

/// Two workloads for each number of threads up to `threads`, and the sum.
pub(crate) fn jobs(threads: usize) -> Vec<Job> {
    let additions =
        ["", AMOUNT].into_iter().flat_map(|prefix| (1..=threads).map(move |count| (prefix, count)));
    additions
        .map(|(prefix, threads)| {
            Job::new(Table::Counter, format!("{prefix}{threads}t"), None, threads)
        })
        .chain([Job::new(Table::Counter, SUM, SUM_SLOTS, SUM_SLOTS)])
        .collect()
}

/// Whether a contender takes part. The counter of Sheaves has as many shares as there are slots,
/// so that it is summed up where there are enough: in a child process.
pub(crate) fn admits(job: &Job, kind: Kind) -> bool {
    match kind {
        Kind::Counter => job.variant != SUM,
        Kind::CounterSlots => job.variant == SUM,
        _ => true,
    }
}

/// Takes samples of one number: an addition, or a sum.
pub(crate) fn sampler(job: &Job, kind: Kind) -> Result<Sampler, Failure> {
    count::visit(kind, job.threads, Prepare { job, kind })?
}

struct Prepare<'a> {
    job: &'a Job,
    kind: Kind,
}

impl count::Visitor for Prepare<'_> {
    type Out = Result<Sampler, Failure>;

    fn visit<C: Count>(self, contender: C) -> Self::Out {
        let crew = Crew::of(self.job.threads)?;
        let contender = Arc::new(contender);
        if self.job.variant == SUM {
            self.sums(&crew, contender)
        } else {
            self.additions(contender)
        }
    }
}

impl Prepare<'_> {
    fn additions<C: Count>(self, contender: Arc<C>) -> Result<Sampler, Failure> {
        let threads = self.job.threads;
        let crew = Crew::of(threads)?;
        let add = if self.job.variant.starts_with(AMOUNT) { add::<C> } else { increment::<C> };
        Ok(Box::new(move || {
            let gate = Gate::new(threads);
            let contender = Arc::clone(&contender);
            let times = crew.run(move |_| {
                add(&*contender, ADDITIONS_UNTIMED);
                gate.pass();
                let start = Instant::now();
                add(&*contender, ADDITIONS);
                let time = start.elapsed();
                // No thread stops adding while another is still being timed against it.
                add(&*contender, ADDITIONS_UNTIMED);
                gate.pass();
                time
            });
            Ok(vec![per_operation(times.iter().sum(), ADDITIONS * threads)])
        }))
    }

    fn sums<C: Count>(self, crew: &Crew, contender: Arc<C>) -> Result<Sampler, Failure> {
        let all = Arc::clone(&contender);
        // One after the other: a thread that meets another on a virtual slot goes on to the next.
        let turn = Mutex::new(());
        crew.run(move |_| {
            let _turn = turn.lock();
            all.add(1);
        });
        if self.kind == Kind::CounterSlots {
            check_slots(self.job.threads)?;
        }
        Ok(Box::new(move || {
            sum(&*contender, SUMS / 100);
            let start = Instant::now();
            sum(&*contender, SUMS);
            Ok(vec![per_operation(start.elapsed(), SUMS)])
        }))
    }
}

/// A sum over fewer slots than the row says would be too good a figure.
fn check_slots(slots: usize) -> Result<(), Failure> {
    let used = sheaves::percpu::memory::statistics().map_or(0, |statistics| statistics.slots_used);
    if used == slots {
        return Ok(());
    }
    Err(Failure::run(format!("{used} slots are in use where {slots} were expected")))
}

#[inline(never)]
fn increment<C: Count>(contender: &C, count: usize) {
    for _ in 0..count {
        contender.increment();
        // As in `add`.
        compiler_fence(Ordering::SeqCst);
    }
}

#[inline(never)]
fn add<C: Count>(contender: &C, count: usize) {
    let amount = black_box(1);
    for _ in 0..count {
        contender.add(amount);
        // Keeps the compiler from adding once for all, and costs no instruction.
        compiler_fence(Ordering::SeqCst);
    }
}

#[inline(never)]
fn sum<C: Count>(contender: &C, count: usize) {
    for _ in 0..count {
        black_box(contender.sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_workload_for_each_number_of_threads_and_one_for_the_sum() {
        let names: Vec<_> = jobs(2).iter().map(Job::name).collect();
        let additions = ["counter/1t", "counter/2t", "counter/amount-1t", "counter/amount-2t"];
        assert_eq!(names[..4], additions);
        assert_eq!(names[4..], ["counter/sum/64"]);
    }

    #[test]
    fn the_sum_is_that_of_enough_slots() {
        for job in jobs(1) {
            let is_sum = job.variant == SUM;
            assert_eq!(admits(&job, Kind::CounterSlots), is_sum);
            assert_eq!(admits(&job, Kind::Counter), !is_sum);
        }
        assert!(check_slots(usize::MAX).is_err());
    }
}
