//! Many objects of one size at a time: neighbours are taken, and given back, as one area.
//!
//! The places are those that as many single requests would get, but for the work: what is found for
//! the first object is looked at only once for those that fit behind it.

use crate::dynamic::allocator::Allocator;
use crate::dynamic::backing::Backing;
use crate::dynamic::bits;
use crate::dynamic::config::{Growth, Offset, Request};
use crate::dynamic::error::{AllocError, FreeError};
use crate::dynamic::hints::Run;
use crate::dynamic::policy::Policy;

impl<P: Policy, B: Backing> Allocator<P, B> {
    /// Fills `offsets` from its start on with objects as [`Allocator::alloc`] makes them; how many,
    /// at least one unless `offsets` is empty.
    ///
    /// # Errors
    /// See [`AllocError`]: there was not even one.
    pub fn alloc_many(
        &mut self,
        size: usize,
        align: usize,
        growth: Growth,
        offsets: &mut [Offset],
    ) -> Result<usize, AllocError> {
        let request = Request::new(size, align)?;
        let mut count = 0;
        while let Some(rest) = offsets.get_mut(count..).filter(|rest| !rest.is_empty()) {
            match self.alloc_some(request, growth, rest) {
                Ok(some) => count += some,
                Err(refusal) if count == 0 => return Err(refusal),
                Err(_) => break,
            }
        }
        Ok(count)
    }

    /// One object, and those that fit right behind it.
    fn alloc_some(
        &mut self,
        request: Request,
        growth: Growth,
        offsets: &mut [Offset],
    ) -> Result<usize, AllocError> {
        let bits = request.bits;
        let Some((chunk, first)) = self.find(request, growth) else {
            let offset = self.alloc_slow(request, growth)?;
            offsets[0] = offset;
            return Ok(1);
        };
        // Where alignment would leave gaps, or a page behind may be missing, one at a time.
        let is_dense = request.align_up(bits) == bits && growth == Growth::Allowed;
        let most = if is_dense { offsets.len() as u32 } else { 1 };
        let view = self.records.chunk(chunk);
        let limit =
            first.start.saturating_add(most.saturating_mul(bits)).min(view.header.hints.bits);
        let end = bits::next_one(view.allocated, first.end, limit);
        let count = (end - first.start) / bits;
        let largest = view.header.object_bits_max;
        let area = Run { start: first.start, end: first.start + count * bits };
        let occupied = self.occupy(chunk, area);
        let view = self.records.chunk(chunk);
        view.header.object_bits_max = largest.max(if occupied.is_ok() { bits } else { 0 });
        occupied?;
        // So far the area is one object.
        view.header.objects += count - 1;
        for (index, offset) in (0..count).zip(offsets) {
            let start = area.start + index * bits;
            bits::set(view.bounds, start);
            *offset = self.geometry.offset(chunk, start);
            self.totals.allocated(bits);
        }
        Ok(count as usize)
    }

    /// Frees objects as [`Allocator::free`] does, in the order of their offsets, which it sorts.
    ///
    /// # Errors
    /// The first offset that was refused, and why. What comes before it in the sorted order has
    /// been freed; it and what comes after has not.
    pub fn free_many(&mut self, offsets: &mut [Offset]) -> Result<(), (Offset, FreeError)> {
        offsets.sort_unstable();
        let mut rest = &*offsets;
        while let [first, others @ ..] = rest {
            rest = others;
            let (chunk, mut area) = self.object(*first).map_err(|error| (*first, error))?;
            self.totals.freed();
            let mut more = 0;
            while let [next, others @ ..] = rest
                && *next == self.geometry.offset(chunk, area.end)
                && let Ok((same, behind)) = self.object(*next)
                && same == chunk
            {
                area.end = behind.end;
                self.totals.freed();
                more += 1;
                rest = others;
            }
            // From here on the area is one object.
            self.records.header_mut(chunk).objects -= more;
            self.give(chunk, area);
        }
        Ok(())
    }
}
