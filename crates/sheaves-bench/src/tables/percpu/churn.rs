//! `churn`: a tenth of the filters, chosen at random, is deleted; then as many are added. Ten
//! rounds of that are a sample, two with `V50`; the row is one replacement, a free and an
//! allocation of an object.
//!
//! The filters stay from sample to sample. The work is that of the first ten rounds.

use core::time::Duration;
use std::time::Instant;

use serde_json::Value;

use super::contenders::PerCpuMemory;
use super::fill::{add_filters, add_object, delete_filters};
use super::variant::Variant;
use super::work::Work;
use crate::harness::{Failure, Random, Sample, per_operation};

/// A round replaces one of this number of filters.
const SHARE: usize = 10;

pub(crate) struct Churn<C: PerCpuMemory> {
    variant: Variant,
    contender: C,
    objects: Vec<C::Object>,
    /// The filters in some order, of which each round takes a part.
    order: Vec<u32>,
    random: Random,
    held_bytes: u64,
    work: Option<Work>,
}

impl<C: PerCpuMemory> Churn<C> {
    pub(crate) fn new(variant: Variant, filters: usize) -> Result<Churn<C>, Failure> {
        let contender = C::new(&variant.slot_memory(filters))?;
        let shapes = variant.pattern.objects();
        let mut objects = Vec::with_capacity(filters * shapes.len());
        add_filters(&contender, shapes, filters, variant.slots > 0, &mut objects);
        let order = (0..filters as u32).collect();
        let random = Random::new(filters as u64);
        let held_bytes = contender.tally(objects.len()).bytes_in_use;
        Ok(Churn { variant, contender, objects, order, random, held_bytes, work: None })
    }

    /// Brings a random part of the filters to the front of the order; how many.
    fn choose(&mut self) -> usize {
        let count = (self.order.len() / SHARE).max(1);
        for place in 0..count {
            let rest = (self.order.len() - place) as u32;
            self.order.swap(place, place + self.random.below(rest) as usize);
        }
        count
    }

    fn round(&mut self) -> (Duration, usize) {
        let count = self.choose();
        let start = Instant::now();
        self.delete(&self.order[..count]);
        self.add(count);
        (start.elapsed(), count * self.variant.pattern.objects().len())
    }

    #[inline(never)]
    fn delete(&self, filters: &[u32]) {
        let shapes = self.variant.pattern.objects();
        for filter in filters {
            let first = *filter as usize * shapes.len();
            let objects = &self.objects[first..first + shapes.len()];
            // SAFETY: the objects of a filter; `add` puts others in their place.
            unsafe { delete_filters(&self.contender, shapes, objects) };
        }
    }

    /// Puts others in the place of the first filters in the order.
    #[inline(never)]
    fn add(&mut self, count: usize) {
        let (shapes, zeroed) = (self.variant.pattern.objects(), self.variant.slots > 0);
        for filter in &self.order[..count] {
            let first = *filter as usize * shapes.len();
            for (place, shape) in self.objects[first..].iter_mut().zip(shapes) {
                *place = add_object(&self.contender, *shape, zeroed);
            }
        }
    }
}

impl<C: PerCpuMemory> Sample for Churn<C> {
    fn sample(&mut self) -> Result<Vec<f64>, Failure> {
        let before = self.work.is_none().then(|| self.contender.tally(self.objects.len()));
        let (mut time, mut replacements) = (Duration::ZERO, 0);
        for _ in 0..C::CHURN_ROUNDS {
            let (round, count) = self.round();
            time += round;
            replacements += count;
        }
        if let Some(before) = before {
            let bytes_ideal = self.variant.bytes_ideal(C::BY_SIZE, self.order.len());
            let tally = self.contender.tally(self.objects.len());
            self.work = Some(tally.since(&before, self.held_bytes, bytes_ideal));
        }
        Ok(vec![per_operation(time, replacements)])
    }

    fn work(&self) -> Option<Value> {
        self.work.as_ref().map(Work::to_json)
    }
}

impl<C: PerCpuMemory> Drop for Churn<C> {
    fn drop(&mut self) {
        if C::OUTLIVED {
            // SAFETY: all are filters of these shapes, and go with the contender.
            unsafe {
                delete_filters(&self.contender, self.variant.pattern.objects(), &self.objects);
            }
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_percpu_churn.rs"]
mod tests;
