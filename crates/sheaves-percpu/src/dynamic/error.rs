//! Errors of the allocator.

use core::fmt;

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
    /// The system is out of memory or address space.
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
