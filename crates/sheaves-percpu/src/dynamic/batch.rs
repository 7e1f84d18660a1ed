//! Batches of objects of one size: neighbours are allocated and freed as one area.
//!
//! The places are the same as for single requests, with less work: the result for the first object
//! is used for all that fit after it.

use crate::dynamic::allocator::Allocator;
use crate::dynamic::backing::Backing;
use crate::dynamic::bits;
use crate::dynamic::config::{Request, bytes_of};
use crate::dynamic::error::{Error, FreeError};
use crate::dynamic::hints::Run;

impl<B: Backing> Allocator<B> {
    /// Allocates objects as [`Allocator::alloc`] does and fills `offsets` from its start; returns
    /// their number, which is at least one unless `offsets` is empty.
    ///
    /// # Errors
    /// See [`Error`]: not even one could be allocated.
    pub fn alloc_many(
        &mut self,
        size: usize,
        align: usize,
        offsets: &mut [usize],
    ) -> Result<usize, Error> {
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

    /// Allocates one object, and those that fit right after it.
    fn alloc_some(&mut self, request: Request, offsets: &mut [usize]) -> Result<usize, Error> {
        let bits = request.bits;
        let Some((chunk, first)) = self.find(request) else {
            offsets[0] = self.alloc_slow(request)?;
            return Ok(1);
        };
        // One at a time where alignment would leave gaps.
        let is_dense = request.align_up(bits) == bits;
        let most = if is_dense { offsets.len() as u32 } else { 1 };
        let view = self.records.chunk(chunk);
        let limit =
            first.start.saturating_add(most.saturating_mul(bits)).min(view.header.hints.bits);
        let end = bits::next_one(view.allocated, first.end, limit);
        let count = (end - first.start) / bits;
        let area = Run { start: first.start, end: first.start + count * bits };
        self.occupy(chunk, area);
        // Until here the area is one object.
        let view = self.records.chunk(chunk);
        for (index, offset) in (0..count).zip(offsets) {
            let start = area.start + index * bits;
            bits::set(view.bounds, start);
            *offset = self.geometry.offset(chunk, start);
        }
        self.statistics.allocations += u64::from(count);
        self.records.work.allocated(bytes_of(bits));
        Ok(count as usize)
    }

    /// Frees objects as [`Allocator::free`] does, in this order. Sorted offsets are freed faster.
    ///
    /// # Errors
    /// The first offset that was refused, and why. The offsets before it have been freed; it and
    /// those after it have not.
    pub fn free_many(&mut self, offsets: &[usize]) -> Result<(), (usize, FreeError)> {
        let mut rest = offsets;
        while let [first, others @ ..] = rest {
            rest = others;
            let (chunk, mut area) = self.object(*first).map_err(|error| (*first, error))?;
            self.statistics.frees += 1;
            while let [next, others @ ..] = rest
                && *next == self.geometry.offset(chunk, area.end)
                && let Ok((same, behind)) = self.object(*next)
                && same == chunk
            {
                area.end = behind.end;
                self.statistics.frees += 1;
                rest = others;
            }
            self.free_area(chunk, area);
        }
        Ok(())
    }
}
