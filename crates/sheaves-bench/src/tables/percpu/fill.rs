//! `tc`, `tc-packed` and `control`: a fresh contender, to which all filters are added one after the
//! other. The row is one object.

use std::time::Instant;

use serde_json::Value;

use super::contenders::PerCpuMemory;
use super::slot_memory::SlotMemory;
use super::variant::{Shape, Variant};
use super::work::Work;
use crate::harness::failure::Failure;
use crate::harness::measure::{Sample, per_operation};

/// A contender that adds filters.
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
            let bytes_ideal = self.variant.bytes_ideal::<C>(self.filters);
            let work = contender.tally(count).work_since(&before, bytes_ideal);
            self.work = Some(work);
        }
        delete_filters(&contender, shapes, &self.objects);
        self.objects.clear();
        Ok(vec![per_operation(time, count)])
    }

    fn work(&self) -> Option<Value> {
        self.work.as_ref().map(Work::to_json)
    }
}

/// Adds filters, zeroed if asked for.
#[inline(never)]
pub(super) fn add_filters<C: PerCpuMemory>(
    contender: &C,
    shapes: &[Shape],
    filters: usize,
    zeroed: bool,
    objects: &mut Vec<C::Object>,
) {
    for _ in 0..filters {
        for (size, align) in shapes {
            let object = contender.alloc(*size, *align);
            if zeroed {
                // SAFETY: just allocated with this size.
                unsafe { contender.zero(object, *size) };
            }
            objects.push(object);
        }
    }
}

/// Deletes all filters of a contender that is about to be dropped, where that is needed.
pub(super) fn delete_filters<C: PerCpuMemory>(
    contender: &C,
    shapes: &[Shape],
    objects: &[C::Object],
) {
    if !C::OUTLIVED {
        return;
    }
    for filter in objects.chunks_exact(shapes.len()) {
        for (object, (size, _)) in filter.iter().zip(shapes) {
            // SAFETY: the objects of a filter were allocated with these sizes, and go once.
            unsafe { contender.free(*object, *size) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunked::{Chunked, Reserved};
    use super::super::library::{Handles, Typed};
    use super::super::mutex_pool::MutexPools;
    use super::super::variant::Pattern;
    use super::*;
    use sheaves_history::percpu::{V50, V52};
    use sheaves_percpu::dynamic::Allocator;

    const FILTERS: usize = 4096;

    fn work<C: PerCpuMemory>(pattern: Pattern, unit_kib: usize, slots: usize) -> Work {
        let mut fill = Fill::<C>::new(Variant::new(pattern, unit_kib, slots), FILTERS);
        assert!(fill.work.is_none());
        let values = fill.sample().unwrap();
        assert!(values.len() == 1 && values[0] > 0.0);
        let work = fill.work.clone().unwrap();
        fill.sample().unwrap();
        assert_eq!(fill.work, Some(work.clone()));
        work
    }

    #[test]
    fn filters_leave_holes_that_only_the_old_allocator_tests_again() {
        let tested = |work: Work| work.chunks_tested().unwrap();
        // 4096 filters are 8 chunks; on average the old one tests the 4 full ones for each object.
        assert!(tested(work::<Chunked<V50<Reserved>>>(Pattern::Tc, 32, 0)) > 3.0);
        assert!(tested(work::<Chunked<V52<Reserved>>>(Pattern::Tc, 32, 0)) <= 1.01);
        let fixed = work::<Chunked<Allocator<Reserved>>>(Pattern::Tc, 32, 0);
        assert_eq!(fixed.unusable_bytes, Some(FILTERS as u64 * 12));
        assert!(tested(fixed) <= 1.01);
    }

    #[test]
    fn memory_is_held_against_what_the_objects_need() {
        let fixed = work::<Chunked<Allocator<Reserved>>>(Pattern::TcPacked, 64, 2);
        assert_eq!(fixed.bytes_ideal, FILTERS as u64 * 44);
        let spare_pages = 5.0 * 4096.0;
        assert!(fixed.memory_ratio() <= 1.0 + spare_pages / fixed.bytes_ideal as f64);
        // Items of 16, 16 and 32 bytes.
        let pools = work::<MutexPools>(Pattern::TcPacked, 64, 2);
        assert!((pools.memory_ratio() - 64.0 / 44.0).abs() < 1e-9);
    }

    #[test]
    fn the_library_needs_what_its_objects_need() {
        let ideal = FILTERS as u64 * 52;
        for work in [work::<Typed>(Pattern::Tc, 64, 0), work::<Handles>(Pattern::Tc, 64, 0)] {
            assert_eq!(work.bytes_ideal, ideal);
            // Other tests of this process have objects, too: they may take what it had before.
            assert!(work.bytes_in_use >= ideal - 64 * 1024, "{work:?}");
        }
    }
}
