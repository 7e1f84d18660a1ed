//! `tc`, `tc-packed` and `control`: a fresh contender, to which all filters are added one after the
//! other. The row is one object.

use std::time::Instant;

use serde_json::Value;

use super::contenders::PerCpuMemory;
use super::slot_memory::SlotMemory;
use super::variant::{Shape, Variant};
use super::work::Work;
use crate::harness::{Failure, Sample, per_operation};

pub(crate) struct Fill<C: PerCpuMemory> {
    variant: Variant,
    filters: usize,
    memory: SlotMemory,
    /// Empty between samples; kept because its memory is.
    objects: Vec<C::Object>,
    work: Option<Work>,
}

impl<C: PerCpuMemory> Fill<C> {
    pub(crate) fn new(variant: Variant, filters: usize) -> Fill<C> {
        let objects = Vec::with_capacity(filters * variant.pattern.objects().len());
        Fill { variant, filters, memory: variant.slot_memory(filters), objects, work: None }
    }
}

impl<C: PerCpuMemory> Sample for Fill<C> {
    fn sample(&mut self) -> Result<Vec<f64>, Failure> {
        let contender = C::new(&self.memory)?;
        let (shapes, zeroed) = (self.variant.pattern.objects(), self.variant.slots > 0);
        let before = contender.tally(0);
        let start = Instant::now();
        add_filters(&contender, shapes, self.filters, zeroed, &mut self.objects);
        let time = start.elapsed();
        let count = self.objects.len();
        if self.work.is_none() {
            let bytes_ideal = self.variant.bytes_ideal(C::BY_SIZE, self.filters);
            let tally = contender.tally(count);
            self.work = Some(tally.since(&before, before.bytes_in_use, bytes_ideal));
        }
        if C::OUTLIVED {
            // SAFETY: all are filters of these shapes, and are forgotten here.
            unsafe { delete_filters(&contender, shapes, &self.objects) };
        }
        self.objects.clear();
        Ok(vec![per_operation(time, count)])
    }

    fn work(&self) -> Option<Value> {
        self.work.as_ref().map(Work::to_json)
    }
}

#[inline(never)]
pub(super) fn add_filters<C: PerCpuMemory>(
    contender: &C,
    shapes: &[Shape],
    filters: usize,
    zeroed: bool,
    objects: &mut Vec<C::Object>,
) {
    for _ in 0..filters {
        for shape in shapes {
            objects.push(add_object(contender, *shape, zeroed));
        }
    }
}

#[inline]
pub(super) fn add_object<C: PerCpuMemory>(
    contender: &C,
    (size, align): Shape,
    zeroed: bool,
) -> C::Object {
    let object = contender.alloc(size, align);
    if zeroed {
        // SAFETY: just allocated with this size.
        unsafe { contender.zero(object, size) };
    }
    object
}

/// Deletes filters.
///
/// # Safety
/// The objects are those of whole filters of these shapes, and are not used any more.
#[inline]
pub(super) unsafe fn delete_filters<C: PerCpuMemory>(
    contender: &C,
    shapes: &[Shape],
    objects: &[C::Object],
) {
    for filter in objects.chunks_exact(shapes.len()) {
        for (object, (size, _)) in filter.iter().zip(shapes) {
            // SAFETY: the caller's promise: allocated with this size.
            unsafe { contender.free(*object, *size) };
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/tables_percpu_fill.rs"]
mod tests;
