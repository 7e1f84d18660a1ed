//! `concurrent`: each thread keeps a thousand filters of small objects. Again and again it picks
//! one at random, frees its objects, allocates others in their place, zeroed, and counts once in
//! each, in the slot of its CPU. `concurrent-pair`: beside as many filters, each object is freed as
//! soon as it has counted. The row is one object, freed and allocated, averaged over the threads.
//!
//! The filters stay from sample to sample. Slots are those of this machine.

use alloc::sync::Arc;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::contenders::PerCpuMemory;
use super::fill::{add_filters, add_object, delete_filters};
use super::variant::{Pattern, Shape, Variant};
use super::work::Work;
use crate::harness::{Failure, Random, Sample, Workers};

const LIVE: usize = 1000;
/// Filters that each thread replaces in a sample.
const REPLACEMENTS: usize = 5000;
/// Filters that are replaced before the clock starts, so that their places are well mixed.
const REPLACEMENTS_UNTIMED: usize = 2000;

pub(crate) struct Concurrent<C: PerCpuMemory> {
    variant: Variant,
    workers: alloc::rc::Rc<Workers>,
    shared: Arc<Shared<C>>,
    /// Of filling it, and of as many replacements as in a sample.
    work: Option<Work>,
    seed: u64,
}

struct Shared<C: PerCpuMemory> {
    variant: Variant,
    contender: C,
    objects: Vec<Mutex<Vec<C::Object>>>,
}

impl<C: PerCpuMemory> Concurrent<C> {
    pub(crate) fn new(variant: Variant) -> Result<Concurrent<C>, Failure> {
        let threads = variant.threads;
        let workers = Workers::of(threads)?;
        let contender = C::new(&variant.slot_memory(LIVE * threads))?;
        let before = contender.tally(0);
        let objects = (0..threads).map(|_| Mutex::new(Vec::new())).collect();
        let shared = Arc::new(Shared { variant, contender, objects });
        let filled = Arc::clone(&shared);
        workers.run(move |thread| {
            filled.fill(thread);
            filled.work(thread, &mut Random::new(thread as u64), REPLACEMENTS);
        });
        // Now, before there is another contender on the same memory.
        let mut new = Concurrent { variant, workers, shared, work: None, seed: threads as u64 };
        let bytes_ideal = variant.bytes_ideal(C::BY_SIZE, LIVE * threads);
        let tally = new.shared.contender.tally(new.count());
        new.work = Some(tally.since(&before, before.bytes_in_use, bytes_ideal));
        Ok(new)
    }

    fn count(&self) -> usize {
        LIVE * self.variant.threads * self.variant.pattern.objects().len()
    }
}

impl<C: PerCpuMemory> Sample for Concurrent<C> {
    fn sample(&mut self) -> Result<Vec<f64>, Failure> {
        let threads = self.variant.threads;
        let shared = Arc::clone(&self.shared);
        let seed = self.seed;
        self.seed += threads as u64;
        let filter = self.workers.time(REPLACEMENTS_UNTIMED, REPLACEMENTS, move |thread| {
            let shared = Arc::clone(&shared);
            let mut random = Random::new(seed + thread as u64);
            move |count| shared.work(thread, &mut random, count)
        });
        Ok(vec![filter / self.variant.pattern.objects().len() as f64])
    }

    fn work(&self) -> Option<Value> {
        self.work.as_ref().map(Work::to_json)
    }
}

impl<C: PerCpuMemory> Shared<C> {
    fn fill(&self, thread: usize) {
        let mut objects = self.objects[thread].lock().unwrap_or_else(PoisonError::into_inner);
        add_filters(&self.contender, self.variant.pattern.objects(), LIVE, true, &mut objects);
    }

    fn work(&self, thread: usize, random: &mut Random, count: usize) {
        match self.variant.pattern {
            Pattern::ConcurrentPair => self.pairs(count),
            _ => self.replace(thread, random, count),
        }
    }

    #[inline]
    fn object(&self, shape: Shape) -> C::Object {
        let object = add_object(&self.contender, shape, true);
        // SAFETY: just allocated; all sizes are 8 at least, and so is the alignment.
        unsafe { self.contender.add(object) };
        object
    }

    #[inline(never)]
    fn pairs(&self, count: usize) {
        for _ in 0..count {
            for shape in self.variant.pattern.objects() {
                let object = self.object(*shape);
                // SAFETY: just allocated with this size, and nothing else knows it.
                unsafe { self.contender.free(object, shape.0) };
            }
        }
    }

    #[inline(never)]
    fn replace(&self, thread: usize, random: &mut Random, count: usize) {
        let mut objects = self.objects[thread].lock().unwrap_or_else(PoisonError::into_inner);
        let shapes = self.variant.pattern.objects();
        for _ in 0..count {
            let first = random.below(LIVE as u32) as usize * shapes.len();
            let filter = &mut objects[first..first + shapes.len()];
            // SAFETY: the objects of a filter, which are replaced at once.
            unsafe { delete_filters(&self.contender, shapes, filter) };
            for (place, shape) in filter.iter_mut().zip(shapes) {
                *place = self.object(*shape);
            }
        }
    }
}

impl<C: PerCpuMemory> Drop for Shared<C> {
    fn drop(&mut self) {
        for objects in &self.objects {
            let objects = objects.lock().unwrap_or_else(PoisonError::into_inner);
            if C::OUTLIVED {
                // SAFETY: all are filters of these shapes, and go with the contender.
                unsafe {
                    delete_filters(&self.contender, self.variant.pattern.objects(), &objects);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_percpu_concurrent.rs"]
mod tests;
