//! `malloc` and `fork` of a thread while another one gives the free memory of a large heap back,
//! and without that.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;

use super::heap::{Call, Heap};
use super::times::{Clock, MEASURES, Times};
use crate::contenders::allocators::{Allocator, Workload};
use crate::harness::{Backoff, Failure, Forked, Sampler};

/// Of blocks of the same sizes as in the large heap, which the measured thread replaces.
const OWN_BYTES: usize = 4 << 20;
/// Forks without a trim.
const FORKS: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    Malloc,
    Fork,
}

/// A sample has the figures beside a trim, and those without one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    pub(super) bytes: usize,
    pub(super) measured: Measured,
}

impl Workload for Beside {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let mut seed = 0;
        Ok(Box::new(move || {
            seed += 2;
            let mut heap = Heap::new(&allocator, self.bytes, seed);
            heap.touch();
            heap.thin_to(heap.blocks.len() / 16);
            let trim = Trim::default();
            let [beside, without] = std::thread::scope(|scope| {
                let other = scope.spawn(|| match self.measured {
                    Measured::Malloc => measure_malloc(&allocator, seed + 1, &trim),
                    Measured::Fork => measure_fork(&trim),
                });
                trim.run(&allocator);
                other.join().map_err(|_| Failure::run("the measured thread panicked"))?
            })?;
            Ok(beside.into_iter().chain(without).collect())
        }))
    }
}

type Figures = [f64; MEASURES.len()];

/// Replaces blocks until the trim is over, and then for as long again: what the allocator does
/// without a trim is measured in a window of the same length.
fn measure_malloc<A: Allocator>(
    allocator: &A,
    seed: u64,
    trim: &Trim,
) -> Result<[Figures; 2], Failure> {
    let mut heap = Heap::new(allocator, OWN_BYTES, seed);
    heap.restart(Clock::Wall);
    heap.replace();
    trim.begin();
    while !trim.is_over() {
        heap.replace();
    }
    let beside = heap.times(Call::Malloc).figures();
    heap.restart(Clock::Wall);
    let end = Clock::Wall.now() + trim.time();
    while Clock::Wall.now() < end {
        heap.replace();
    }
    Ok([beside, heap.times(Call::Malloc).figures()])
}

/// Forks before the trim, when the heap is as large as at its begin, and until it is over.
fn measure_fork(trim: &Trim) -> Result<[Figures; 2], Failure> {
    let fork = |times: &mut Times| times.time(|| Forked::start(|| {})).map(drop);
    let mut without = Times::new(Clock::Wall);
    let mut forked = Ok(());
    while forked.is_ok() && without.count() < FORKS {
        forked = fork(&mut without);
    }
    let mut beside = Times::new(Clock::Wall);
    // Whatever has failed, the other thread waits for this.
    trim.begin();
    while forked.is_ok() && !trim.is_over() {
        forked = fork(&mut beside);
    }
    forked.map(|()| [beside.figures(), without.figures()])
}

/// The trim of one thread, as another one sees it.
#[derive(Debug, Default)]
struct Trim {
    may_begin: AtomicBool,
    is_over: AtomicBool,
    nanoseconds: AtomicU64,
}

impl Trim {
    /// Trims when the other thread says so.
    fn run<A: Allocator>(&self, allocator: &A) {
        let mut backoff = Backoff::new();
        // Relaxed: nothing is read that the other thread has written before.
        while !self.may_begin.load(Ordering::Relaxed) {
            backoff.pause();
        }
        let begin = Clock::Wall.now();
        allocator.trim();
        let time = Clock::Wall.now() - begin;
        // Relaxed: the store below orders it.
        self.nanoseconds.store(time.as_nanos() as u64, Ordering::Relaxed);
        // Release: partner is the load in `is_over`; the time is visible then.
        self.is_over.store(true, Ordering::Release);
    }

    fn begin(&self) {
        // Relaxed: as above.
        self.may_begin.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        // Acquire: partner is the store in `run`.
        self.is_over.load(Ordering::Acquire)
    }

    /// How long it took, once it is over.
    fn time(&self) -> Duration {
        // Relaxed: the load in `is_over` has ordered it.
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_worst_beside.rs"]
mod tests;
