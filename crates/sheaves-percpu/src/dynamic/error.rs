//! Errors of the allocator.

use core::fmt;

/// Why nothing was allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocError {
    /// The size was 0.
    ZeroSize,
    /// The size was above [`crate::dynamic::OBJECT_BYTES_MAX`].
    TooLarge,
    /// The alignment was not a power of two, or above [`crate::dynamic::ALIGN_MAX`].
    BadAlignment,
    /// All chunks exist, and none has a run that fits.
    Exhausted,
    /// The backing had no memory for a chunk or for its metadata.
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

/// Why no allocator was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewError {
    /// The unit is not a power of two from [`crate::dynamic::UNIT_BYTES_MIN`] to
    /// [`crate::dynamic::UNIT_BYTES_MAX`].
    BadUnit,
    /// The number of chunks is 0, or too large for offsets in bytes.
    BadChunks,
    /// The hidden head is not a multiple of 4 bytes below the size of a unit.
    BadHead,
    /// The backing had no memory for metadata.
    NoMemory,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AllocError::ZeroSize => "the size is 0",
            AllocError::TooLarge => "the size is above 32 KiB",
            AllocError::BadAlignment => "the alignment is no power of two up to 4096",
            AllocError::Exhausted => "the reserved range is exhausted",
            AllocError::NoMemory => "out of memory",
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

impl fmt::Display for NewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NewError::BadUnit => "the unit is no power of two from 32 to 256 KiB",
            NewError::BadChunks => "the number of chunks is 0 or too large",
            NewError::BadHead => "the hidden head is no multiple of 4 below the unit",
            NewError::NoMemory => "out of memory",
        })
    }
}

impl core::error::Error for AllocError {}
impl core::error::Error for FreeError {}
impl core::error::Error for NewError {}
