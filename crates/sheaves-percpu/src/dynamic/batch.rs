//! Many objects of one size at a time: neighbours are taken, and given back, as one area.
//!
//! The places are those that as many single requests would get, but for the work: what is found for
//! the first object is looked at only once for those that fit behind it.

use crate::dynamic::allocator::Allocator;
use crate::dynamic::backing::Backing;
use crate::dynamic::bits;
use crate::dynamic::config::{Offset, Request};
use crate::dynamic::error::{AllocError, FreeError};
use crate::dynamic::hints::Run;

impl<B: Backing> Allocator<B> {
    /// Fills `offsets` from its start on with objects as [`Allocator::alloc`] makes them; how many,
    /// at least one unless `offsets` is empty.
    ///
    /// # Errors
    /// See [`AllocError`]: there was not even one.
    pub fn alloc_many(
        &mut self,
        size: usize,
        align: usize,
        offsets: &mut [Offset],
    ) -> Result<usize, AllocError> {
        let request = Request::new(size, align)?;
        let mut count = 0;
        while let Some(rest) = offsets.get_mut(count..).filter(|rest| !rest.is_empty()) {
            match self.alloc_some(request, rest) {
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
        offsets: &mut [Offset],
    ) -> Result<usize, AllocError> {
        let bits = request.bits;
        let Some((chunk, first)) = self.find(request) else {
            offsets[0] = self.alloc_slow(request)?;
            return Ok(1);
        };
        // Where alignment would leave gaps, one at a time.
        let is_dense = request.align_up(bits) == bits;
        let most = if is_dense { offsets.len() as u32 } else { 1 };
        let view = self.records.chunk(chunk);
        let limit =
            first.start.saturating_add(most.saturating_mul(bits)).min(view.header.hints.bits);
        let end = bits::next_one(view.allocated, first.end, limit);
        let count = (end - first.start) / bits;
        let area = Run { start: first.start, end: first.start + count * bits };
        self.occupy(chunk, area);
        // So far the area is one object.
        let view = self.records.chunk(chunk);
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
            while let [next, others @ ..] = rest
                && *next == self.geometry.offset(chunk, area.end)
                && let Ok((same, behind)) = self.object(*next)
                && same == chunk
            {
                area.end = behind.end;
                self.totals.freed();
                rest = others;
            }
            self.give(chunk, area);
        }
        Ok(())
    }
}
