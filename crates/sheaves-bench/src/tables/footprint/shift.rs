//! Threads that replace blocks all the time, while the sizes shift from phase to phase.

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use super::blocks::{Blocks, MIB, own};
use crate::contenders::allocators::replacing::{log_uniform, one_of};
use crate::contenders::allocators::{Allocator, Workload};
use crate::harness::{Failure, Sampler, Workers, mean, resident_bytes};

pub(super) const IN_USE_BYTES: usize = 128 * MIB;
const THREADS: usize = 4;
const PHASES: u32 = 12;
/// The sizes of the phases, in turn.
const RANGES: [(f64, f64); 3] = [(16.0, 512.0), (512.0, 4096.0), (16.0, 16_384.0)];
/// Well below the mean of the smallest sizes, 143 bytes.
const SIZE_MEAN_MIN: usize = 96;
/// Replacements between two looks at the clock.
const LOOK_EVERY: usize = 64;
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub(super) struct Shift {
    pub(super) phase: Duration,
    pub(super) bytes: usize,
}

impl Shift {
    pub(super) fn new(phase: Duration) -> Shift {
        Shift { phase, bytes: IN_USE_BYTES }
    }

    /// Replacements in a second.
    fn work<A: Allocator>(self, blocks: &mut Blocks<A>, sizes: &[Vec<u16>]) -> f64 {
        let (start, mut count) = (Instant::now(), 0);
        for phase in 0..PHASES {
            let sizes = &sizes[phase as usize % sizes.len()];
            while start.elapsed() < self.phase * (phase + 1) {
                for _ in 0..LOOK_EVERY {
                    blocks.replace(self.bytes / THREADS, |bits| one_of(sizes, bits));
                }
                count += LOOK_EVERY;
            }
        }
        count as f64 / start.elapsed().as_secs_f64()
    }

    /// Resident memory in the mean over the last two thirds.
    fn watch(self) -> f64 {
        let (start, whole) = (Instant::now(), self.phase * PHASES);
        let mut samples = Vec::with_capacity(4096);
        std::thread::sleep(whole / 3);
        while start.elapsed() < whole {
            samples.push(resident_bytes() as f64);
            std::thread::sleep(SAMPLE_EVERY.min(self.phase));
        }
        mean(&samples)
    }
}

impl Workload for Shift {
    fn sampler<A: Allocator>(self, allocator: A) -> Result<Sampler, Failure> {
        let allocator = Arc::new(allocator);
        // One more thread looks at memory.
        let workers = Workers::of(THREADS + 1)?;
        let capacity = self.bytes / THREADS / SIZE_MEAN_MIN;
        let set = |seed| Blocks::new(Arc::clone(&allocator), capacity, seed as u64);
        let sets: Arc<Vec<_>> = Arc::new((0..THREADS).map(set).map(Mutex::new).collect());
        let sizes: Arc<Vec<_>> = Arc::new(RANGES.map(|(min, max)| log_uniform(min, max)).into());
        workers.run(move |_| allocator.enter_thread());
        Ok(Box::new(move || {
            let before = resident_bytes() as f64;
            let (sets, sizes) = (Arc::clone(&sets), Arc::clone(&sizes));
            let figures = workers.run(move |worker| match sets.get(worker) {
                Some(set) => self.work(&mut own(set), &sizes),
                None => self.watch(),
            });
            let (rates, mean) = figures.split_at(THREADS);
            Ok(vec![rates.iter().sum(), (mean[0] - before).max(0.0)])
        }))
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_footprint_shift.rs"]
mod tests;
