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

use crate::harness::{
    Case, Contender, Failure, Judge, Mode, Options, Row, Sampler, Table, Workers, per_operation,
};
use contenders::{Count, Sharded, ThreadLocal};
use sheaves_history::cpu::Padded;

/// Additions of each thread in a sample: at one nanosecond each, 100 microseconds.
const ADDITIONS: usize = 100_000;
const ADDITIONS_UNTIMED: usize = 2000;
const SUMS: usize = 5000;
/// Threads, and slots, of which a sum is made.
const SUM_SLOTS: usize = 64;

/// How much faster than one atomic number the counter has to be, on several threads.
const SPEEDUP: f64 = 10.0;
/// What one addition to the counter may cost, in nanoseconds.
const ADDITION_NS_MAX: f64 = 1.5;

/// The mode in which Sheaves has as many virtual slots as there are threads, of which most machines
/// have fewer.
const SLOTS: Mode = Mode {
    name: "64slots",
    environment: || {
        vec![("SHEAVES_ENGINE", "portable".to_owned()), ("SHEAVES_SLOTS", SUM_SLOTS.to_string())]
    },
    is_fresh: false,
};

pub(crate) static TABLE: Table = Table {
    ours: &["counter"],
    ..Table::new("counter", "add to one number from 1 to --threads threads; sum it up", cases)
};

fn cases(options: &Options) -> Vec<Case> {
    let of = |is_one| (1..=options.threads).map(move |threads| Additions { threads, is_one });
    of(true).chain(of(false)).map(additions).chain([sums()]).collect()
}

#[derive(Clone, Copy)]
struct Additions {
    threads: usize,
    /// Whether the compiler knows that 1 is added.
    is_one: bool,
}

fn additions(case: Additions) -> Case {
    let prefix = if case.is_one { "" } else { "amount-" };
    let row = Row::new(format!("counter/{prefix}{}t", case.threads));
    let contenders = vec![
        Contender::new("counter", move || case.sampler(sheaves::Counter::new())),
        Contender::new("atomic", move || case.sampler(Padded(AtomicU64::new(0)))),
        Contender::new("sharded", move || case.sampler(Sharded::new(case.threads))),
        Contender::new("thread-local", move || case.sampler(ThreadLocal)),
    ];
    Case::new(vec![row.compared(move |row| compare(row, case))], contenders)
}

fn compare(row: &mut Judge<'_>, Additions { threads, is_one }: Additions) {
    row.compare("counter", "atomic", (is_one && threads == 2).then_some(1.0 / SPEEDUP));
    row.compare("counter", "sharded", None);
    row.compare("counter", "thread-local", None);
    if is_one && threads == 1 {
        row.limit("counter", "1 ns", row.median("counter"), ADDITION_NS_MAX);
    }
}

impl Additions {
    fn sampler<C: Count>(self, contender: C) -> Result<Sampler, Failure> {
        let contender = Arc::new(contender);
        let workers = Workers::of(self.threads)?;
        let add = if self.is_one { increment::<C> } else { add::<C> };
        Ok(Box::new(move || {
            let contender = Arc::clone(&contender);
            let time = workers.time(ADDITIONS_UNTIMED, ADDITIONS, move |_| {
                let contender = Arc::clone(&contender);
                move |count| add(&*contender, count)
            });
            Ok(vec![time])
        }))
    }
}

fn sums() -> Case {
    let counter = || {
        let sampler = sum_sampler(sheaves::Counter::new())?;
        check_slots(SUM_SLOTS).map(|()| sampler)
    };
    let contenders = vec![
        Contender::new("counter", counter).in_child(SLOTS),
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
#[path = "../../../tests/unit/tables_counter.rs"]
mod tests;
