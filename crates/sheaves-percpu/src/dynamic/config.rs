//! Configuration, requests and errors of the allocator, and the arithmetic between them.

use core::fmt;

use crate::dynamic::hints::{PAGE_BITS, Run};

/// Granularity of offsets: one bit of the bitmaps.
pub(crate) const GRAIN_BYTES: usize = 4;
/// Bytes of a page, the unit of population. Each has hints of its own.
pub const PAGE_BYTES: usize = 4096;
/// The largest object.
pub const OBJECT_BYTES_MAX: usize = 32 << 10;
/// The largest alignment of an object.
pub const ALIGN_MAX: usize = PAGE_BYTES;
/// The largest unit: its pages have one bit each in a word.
pub(crate) const UNIT_BYTES_MAX: usize = 64 * PAGE_BYTES;

/// The shape of the memory that an allocator divides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Bytes of one chunk in one slot: 32, 64, 128 or 256 KiB.
    pub unit_bytes: usize,
    /// Largest number of chunks, at least 1.
    pub chunks_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) size: usize,
    pub(crate) align: usize,
}

impl Shape {
    pub(crate) const WORD: Shape = Shape { size: 8, align: 8 };

    #[inline]
    pub(crate) const fn new(size: usize, align: usize) -> Result<Shape, Error> {
        if size == 0 {
            return Err(Error::ZeroSize);
        }
        if size > OBJECT_BYTES_MAX {
            return Err(Error::TooLarge);
        }
        if !align.is_power_of_two() || align > ALIGN_MAX {
            return Err(Error::BadAlignment);
        }
        Ok(Shape { size, align })
    }

    #[inline]
    pub(crate) const fn at_least(self, size: usize) -> Shape {
        Shape { size: if self.size < size { size } else { self.size }, align: self.align }
    }
}

/// A valid request, in bits: one per [`GRAIN_BYTES`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    /// Bits of the area, at least 1.
    pub(super) bits: u32,
    /// The area's alignment minus 1; alignments are powers of two up to a page.
    pub(super) align_mask: u32,
}

impl Request {
    #[inline]
    pub(super) fn new(size: usize, align: usize) -> Result<Request, Error> {
        Shape::new(size, align)?;
        let bits = size.div_ceil(GRAIN_BYTES) as u32;
        Ok(Request { bits, align_mask: (align.div_ceil(GRAIN_BYTES) - 1) as u32 })
    }

    #[inline(always)]
    pub(super) fn align_up(self, bit: u32) -> u32 {
        (bit + self.align_mask) & !self.align_mask
    }

    /// The first position of the area in a free run; `None` when it does not fit.
    #[inline(always)]
    pub(super) fn place_in(self, run: Run) -> Option<Run> {
        let start = self.align_up(run.start);
        let end = start + self.bits;
        (end <= run.end).then_some(Run { start, end })
    }
}

/// Why an allocation was refused. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The size was 0.
    ZeroSize,
    /// The size was above [`crate::dynamic::OBJECT_BYTES_MAX`].
    TooLarge,
    /// The alignment was not a power of two, or above [`crate::dynamic::ALIGN_MAX`].
    BadAlignment,
    /// The range reserved for each slot is exhausted.
    Exhausted,
    /// Memory or address space is out.
    NoMemory,
}

/// Why an offset was not freed. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FreeError {
    /// The offset is in no chunk.
    Foreign,
    /// No object begins at the offset.
    NotAnObject,
    /// No object begins there now, but one began or ended there before: most likely this is a
    /// double free.
    AlreadyFree,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::ZeroSize => "the size is 0",
            Error::TooLarge => "the size is above 32 KiB",
            Error::BadAlignment => "the alignment is no power of two up to 4096",
            Error::Exhausted => "the range reserved for each slot is exhausted",
            Error::NoMemory => "out of memory",
        })
    }
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FreeError::Foreign => "the offset lies in no chunk",
            FreeError::NotAnObject => "no object begins at the offset",
            FreeError::AlreadyFree => "the object is free already",
        })
    }
}

impl core::error::Error for Error {}
impl core::error::Error for FreeError {}

/// Constants derived from a [`Config`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometry {
    pub(super) config: Config,
    /// Unit bytes = 1 << `unit_shift`.
    pub(super) unit_shift: u32,
    pub(super) bits: u32,
    pub(super) pages: u32,
}

impl Geometry {
    pub(super) fn new(config: Config) -> Geometry {
        let Config { unit_bytes, chunks_max } = config;
        // A smaller unit could not hold the largest object.
        let units = OBJECT_BYTES_MAX..=UNIT_BYTES_MAX;
        assert!(unit_bytes.is_power_of_two() && units.contains(&unit_bytes));
        assert!(chunks_max > 0 && chunks_max < u32::MAX as usize);
        assert!(chunks_max.checked_mul(unit_bytes).is_some());
        Geometry {
            config,
            unit_shift: unit_bytes.trailing_zeros(),
            bits: (unit_bytes / GRAIN_BYTES) as u32,
            pages: (unit_bytes / PAGE_BYTES) as u32,
        }
    }

    /// The chunk of an offset, if the number is in range, and the byte in its unit.
    #[inline(always)]
    pub(super) fn split(&self, offset: usize) -> Option<(u32, usize)> {
        let chunk = offset >> self.unit_shift;
        let byte = offset & (self.config.unit_bytes - 1);
        (chunk < self.config.chunks_max).then_some((chunk as u32, byte))
    }

    #[inline(always)]
    pub(super) fn offset(&self, chunk: u32, bit: u32) -> usize {
        ((chunk as usize) << self.unit_shift) + bytes_of(bit)
    }
}

#[inline(always)]
pub(super) const fn bytes_of(bits: u32) -> usize {
    bits as usize * GRAIN_BYTES
}

const _: () = {
    assert!(PAGE_BITS as usize * GRAIN_BYTES == PAGE_BYTES);
    assert!(UNIT_BYTES_MAX / PAGE_BYTES == u64::BITS as usize);
    // Positions plus alignment plus size stay far below 2^32.
    assert!(UNIT_BYTES_MAX / GRAIN_BYTES < 1 << 20);
};
