//! Allocates and frees objects in batches: neighbours are allocated and freed as one area.
//!
//! Objects get the same places as in single requests, with less work: the others follow the first
//! object as far as they fit.

use crate::dynamic::allocator::Allocator;
use crate::dynamic::backing::Backing;
use crate::dynamic::bits;
use crate::dynamic::config::{Error, FreeError, GRAIN_BYTES, Request, bytes_of};
use crate::dynamic::hints::Run;

impl<B: Backing> Allocator<B> {
    /// Allocates objects of `size` bytes in every slot, at multiples of `align`. The size is from 1
    /// to [`crate::dynamic::OBJECT_BYTES_MAX`], the alignment a power of two up to
    /// [`crate::dynamic::ALIGN_MAX`]. Fills `offsets` from its start and returns the number of
    /// objects, which is at least one unless `offsets` is empty.
    ///
    /// An offset, in bytes, is the chunk's number times the bytes of a unit, plus the offset in the
    /// unit. The content is whatever the memory held before.
    ///
    /// # Errors
    /// See [`Error`]: not even one could be allocated. Nothing has changed, except that a chunk may
    /// have been created.
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
        let (chunk, first) = self.find(request).map_or_else(|| self.find_slow(request), Ok)?;
        offsets[0] = self.geometry.offset(chunk, first.start);
        let mut area = first;
        // One at a time where alignment would leave gaps.
        if offsets.len() > 1 && request.align_up(bits) == bits {
            let view = self.records.chunk(chunk);
            let wanted = (offsets.len() as u32).saturating_mul(bits);
            let limit = first.start.saturating_add(wanted).min(view.header.hints.bits);
            let end = bits::next_one(view.allocated, first.end, limit);
            area.end = end - (end - first.start) % bits;
        }
        self.alloc_area(chunk, area);
        // Until here the area is one object.
        let mut count = 1;
        let starts = (first.end..area.end).step_by(bits as usize);
        for (start, offset) in starts.zip(&mut offsets[1..]) {
            bits::set(self.records.chunk(chunk).bounds, start);
            *offset = self.geometry.offset(chunk, start);
            count += 1;
        }
        self.statistics.allocations += count as u64;
        self.records.work.allocated(bytes_of(bits));
        Ok(count)
    }

    /// Frees objects by their offsets, in this order. Sorted offsets are freed faster.
    ///
    /// Makes no system call. Afterwards check [`Allocator::balance_wanted`].
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

    /// The object at an offset, by its chunk and area.
    #[inline]
    pub(super) fn object(&mut self, offset: usize) -> Result<(u32, Run), FreeError> {
        let (chunk, byte) = self.geometry.split(offset).ok_or(FreeError::Foreign)?;
        if !self.records.is_live(chunk) {
            return Err(FreeError::Foreign);
        }
        if !byte.is_multiple_of(GRAIN_BYTES) {
            return Err(FreeError::NotAnObject);
        }
        let bit = (byte / GRAIN_BYTES) as u32;
        let view = self.records.chunk(chunk);
        match view.object_at(bit) {
            Some(area) => Ok((chunk, area)),
            None if view.was_bound(bit) => Err(FreeError::AlreadyFree),
            None => Err(FreeError::NotAnObject),
        }
    }
}
