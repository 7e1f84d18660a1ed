//! What the threads of a library use of the machine beside a busy program.

use core::time::Duration;

use super::heap::Heap;
use super::times::Clock;
use crate::contenders::allocators::{Allocator, Workload};
use crate::harness::{Failure, Sampler, process_time};

/// A thread replaces blocks of a heap for that time. A sample is the CPU time of all other threads
/// of the process meanwhile, in percent of one CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) bytes: usize,
    pub(super) time: Duration,
}

impl Workload for Share {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let mut seed = 0;
        Ok(Box::new(move || {
            seed += 1;
            let mut heap = Heap::new(&allocator, self.bytes, seed);
            heap.restart(Clock::Wall);
            let others = || process_time().saturating_sub(Clock::Cpu.now());
            let (begin, before) = (Clock::Wall.now(), others());
            let mut elapsed = Duration::ZERO;
            while elapsed < self.time {
                (0..1024).for_each(|_| heap.replace());
                elapsed = Clock::Wall.now() - begin;
            }
            let used = others().saturating_sub(before);
            Ok(vec![100.0 * used.as_secs_f64() / elapsed.as_secs_f64()])
        }))
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_worst_share.rs"]
mod tests;
