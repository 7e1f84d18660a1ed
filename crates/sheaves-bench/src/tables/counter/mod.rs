//! `counter`: adding to one number from several threads, and summing it up.
//!
//! In the rows `1t`, `2t` and so on 1, 2 ... threads add 1 repeatedly; the row is one addition,
//! averaged over the threads. `amount-1t` and so on: the same with an amount that the compiler does
//! not know. `sum/64`: 64 threads have each added once, on a slot, shard or share of its own where
//! the contender has such; the row is one sum, while no thread adds.
//!
//! | contender | what |
//! |---|---|
//! | `counter` | the library's; for `sum/64` in a child process on 64 virtual slots |
//! | `atomic` | one number |
//! | `sharded` | atomic numbers, of which each thread takes one |
//! | `thread-local` | a number for each thread, and a registry |
//!
//! One addition is held against 1.5 ns; `atomic` with one thread tells what the machine makes of an
//! atomic one, and `thread-local` what of a load, an addition and a store.

mod contenders;

use alloc::sync::Arc;
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use std::sync::Mutex;
use std::time::Instant;

use crate::harness::failure::Failure;
use crate::harness::judge::Judge;
use crate::harness::measure::{Sampler, per_operation};
use crate::harness::table::{Case, Contender, Mode, Options, Row, Table};
use crate::harness::workers::{SpinBarrier, Workers};
use contenders::{Count, Sharded, ThreadLocal};
use sheaves_history::cpu::Padded;

/// Additions of each thread in a sample: at one nanosecond each, 100 microseconds.
const ADDITIONS: usize = 100_000;
/// Additions before the clock starts.
const ADDITIONS_UNTIMED: usize = 2000;
/// Sums in a sample.
const SUMS: usize = 5000;
/// Threads, and slots, of which a sum is made.
const SUM_SLOTS: usize = 64;

/// How much faster than one atomic number the counter has to be, on several threads.
const SPEEDUP: f64 = 10.0;
/// What one addition to the counter may cost, in nanoseconds.
const ADDITION_NS_MAX: f64 = 1.5;

/// The mode in which Sheaves has as many virtual slots as there are threads, of which most machines
/// have fewer.
static SLOTS: Mode = Mode { name: "64slots", environment: environment_of_slots };

fn environment_of_slots() -> Vec<(&'static str, String)> {
    vec![("SHEAVES_ENGINE", "portable".to_owned()), ("SHEAVES_SLOTS", SUM_SLOTS.to_string())]
}

pub(crate) struct Counter;

impl Table for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn about(&self) -> &'static str {
        "add to one number from 1 to --threads threads; sum it up"
    }

    fn cases(&self, options: &Options) -> Vec<Case> {
        let threads = || 1..=options.threads;
        let ones = threads().map(|threads| additions(Additions { threads, amount: Amount::One }));
        let any = threads().map(|threads| additions(Additions { threads, amount: Amount::Any }));
        ones.chain(any).chain([sums()]).collect()
    }
}

/// Threads that add.
#[derive(Clone, Copy)]
struct Additions {
    threads: usize,
    amount: Amount,
}

/// What is added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Amount {
    One,
    /// One, but the compiler does not know it.
    Any,
}

fn additions(case: Additions) -> Case {
    let prefix = if case.amount == Amount::Any { "amount-" } else { "" };
    let row = Row::new(format!("counter/{prefix}{}t", case.threads));
    let contenders = vec![
        Contender::new("counter", move || case.sampler(sheaves::Counter::new())),
        Contender::new("atomic", move || case.sampler(Padded(AtomicU64::new(0)))),
        Contender::new("sharded", move || case.sampler(Sharded::new(case.threads))),
        Contender::new("thread-local", move || case.sampler(ThreadLocal)),
    ];
    Case::new(vec![row.compared(move |row| compare(row, case))], contenders)
}

fn compare(row: &mut Judge<'_>, Additions { threads, amount }: Additions) {
    let is_one = amount == Amount::One;
    row.compare("counter", "atomic", (is_one && threads == 2).then_some(1.0 / SPEEDUP));
    row.compare("counter", "sharded", None);
    row.compare("counter", "thread-local", None);
    if is_one && threads == 1 {
        row.limit("counter", "1 ns", row.median("counter"), ADDITION_NS_MAX);
    }
}

impl Additions {
    fn sampler<C: Count>(self, contender: C) -> Result<Sampler, Failure> {
        let threads = self.threads;
        let contender = Arc::new(contender);
        let workers = Workers::of(threads)?;
        let add = if self.amount == Amount::Any { add::<C> } else { increment::<C> };
        Ok(Box::new(move || {
            let barrier = SpinBarrier::new(threads);
            let contender = Arc::clone(&contender);
            let times = workers.run(move |_| {
                add(&*contender, ADDITIONS_UNTIMED);
                barrier.wait();
                let start = Instant::now();
                add(&*contender, ADDITIONS);
                let time = start.elapsed();
                // No thread stops adding while another is still being timed against it.
                add(&*contender, ADDITIONS_UNTIMED);
                barrier.wait();
                time
            });
            Ok(vec![per_operation(times.iter().sum(), ADDITIONS * threads)])
        }))
    }
}

/// The case of the sum.
fn sums() -> Case {
    let counter = || {
        let sampler = sum_sampler(sheaves::Counter::new())?;
        check_slots(SUM_SLOTS).map(|()| sampler)
    };
    let contenders = vec![
        Contender::new("counter", counter).in_child(&SLOTS),
        Contender::new("atomic", || sum_sampler(Padded(AtomicU64::new(0)))),
        Contender::new("sharded", || sum_sampler(Sharded::new(SUM_SLOTS))),
        Contender::new("thread-local", || sum_sampler(ThreadLocal)),
    ];
    let row = Row::sized("counter/sum", SUM_SLOTS).compared(|row| {
        for other in ["atomic", "sharded", "thread-local"] {
            row.compare("counter", other, None);
        }
    });
    Case::new(vec![row], contenders)
}

fn sum_sampler<C: Count>(contender: C) -> Result<Sampler, Failure> {
    let contender = Arc::new(contender);
    let all = Arc::clone(&contender);
    // One after the other: a thread that meets another on a virtual slot goes on to the next.
    let turn = Mutex::new(());
    Workers::of(SUM_SLOTS)?.run(move |_| {
        let _turn = turn.lock();
        all.add(1);
    });
    Ok(Box::new(move || {
        sum(&*contender, SUMS / 100);
        let start = Instant::now();
        sum(&*contender, SUMS);
        Ok(vec![per_operation(start.elapsed(), SUMS)])
    }))
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
    use crate::harness::judge::verdicts;

    #[test]
    fn there_is_a_case_for_each_number_of_threads_and_one_for_the_sum() {
        let cases = Counter.cases(&Options { sizes: Vec::new(), threads: 2, few: false });
        let names: Vec<_> = cases.iter().map(Case::name).collect();
        let additions = ["counter/1t", "counter/2t", "counter/amount-1t", "counter/amount-2t"];
        assert_eq!(names[..4], additions);
        assert_eq!(names[4..], ["counter/sum/64"]);
    }

    #[test]
    fn a_sum_of_too_few_slots_is_refused() {
        assert!(check_slots(usize::MAX).is_err());
    }

    #[test]
    fn counters_are_held_against_the_atomic_and_the_clock() {
        let field = [("counter", 1.4), ("atomic", 15.0)];
        let judged = |threads| {
            let case = Additions { threads, amount: Amount::One };
            verdicts(&field, |row| compare(row, case))
        };
        assert_eq!([judged(1), judged(2)], [["1 ns PASS"], ["atomic PASS"]]);
    }
}
