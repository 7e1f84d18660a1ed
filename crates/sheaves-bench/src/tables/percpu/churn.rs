//! `churn`: a tenth of the filters, chosen at random, is deleted; then as many are added. Ten
//! rounds of that are a sample, two with `V50`; the row is one replacement, a free and an
//! allocation of an object.
//!
//! The filters stay from sample to sample. The work is that of the first ten rounds.

use core::time::Duration;
use std::time::Instant;

use serde_json::Value;

use super::contenders::PerCpuMemory;
use super::fill::{add_filters, delete_filters};
use super::slot_memory::SlotMemory;
use super::variant::{Shape, Variant};
use super::work::Work;
use crate::harness::failure::Failure;
use crate::harness::measure::{Sample, per_operation};
use crate::harness::random::Random;

/// A round replaces one of this number of filters.
const SHARE: usize = 10;

/// A contender with filters.
pub(crate) struct Churn<C: PerCpuMemory> {
    variant: Variant,
    contender: C,
    /// The contender's memory stays as long as it.
    _memory: SlotMemory,
    objects: Vec<C::Object>,
    /// The filters in some order, of which each round takes a part.
    order: Vec<u32>,
    random: Random,
    work: Option<Work>,
}

impl<C: PerCpuMemory> Churn<C> {
    pub(crate) fn new(variant: Variant, filters: usize) -> Result<Churn<C>, Failure> {
        let memory = variant.slot_memory(filters);
        let contender = C::new(&memory)?;
        let shapes = variant.pattern.objects();
        let mut objects = Vec::with_capacity(filters * shapes.len());
        add_filters(&contender, shapes, filters, variant.slots > 0, &mut objects);
        let order = (0..filters as u32).collect();
        let random = Random::new(filters as u64);
        Ok(Churn { variant, contender, _memory: memory, objects, order, random, work: None })
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
        let shapes = self.variant.pattern.objects();
        let start = Instant::now();
        delete(&self.contender, shapes, &self.objects, &self.order[..count]);
        let zeroed = self.variant.slots > 0;
        add(&self.contender, shapes, &mut self.objects, &self.order[..count], zeroed);
        (start.elapsed(), count * shapes.len())
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
            self.work = Some(tally.work_since(&before, bytes_ideal));
        }
        Ok(vec![per_operation(time, replacements)])
    }

    fn work(&self) -> Option<Value> {
        self.work.as_ref().map(Work::to_json)
    }
}

impl<C: PerCpuMemory> Drop for Churn<C> {
    fn drop(&mut self) {
        delete_filters(&self.contender, self.variant.pattern.objects(), &self.objects);
    }
}

#[inline(never)]
fn delete<C: PerCpuMemory>(
    contender: &C,
    shapes: &[Shape],
    objects: &[C::Object],
    filters: &[u32],
) {
    for filter in filters {
        let first = *filter as usize * shapes.len();
        for (object, (size, _)) in objects[first..].iter().zip(shapes) {
            // SAFETY: the filter's object of this size; `add` puts another in its place.
            unsafe { contender.free(*object, *size) };
        }
    }
}

#[inline(never)]
fn add<C: PerCpuMemory>(
    contender: &C,
    shapes: &[Shape],
    objects: &mut [C::Object],
    filters: &[u32],
    zeroed: bool,
) {
    for filter in filters {
        let first = *filter as usize * shapes.len();
        for (place, (size, align)) in objects[first..].iter_mut().zip(shapes) {
            let object = contender.alloc(*size, *align);
            if zeroed {
                // SAFETY: just allocated with this size.
                unsafe { contender.zero(object, *size) };
            }
            *place = object;
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_percpu_churn.rs"]
mod tests;
