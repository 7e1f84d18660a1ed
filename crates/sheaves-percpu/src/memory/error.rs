//! Errors of allocation.

use core::fmt;

use crate::dynamic::AllocError;

/// Why an allocation was refused. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The size was 0.
    ZeroSize,
    /// The size was above [`super::OBJECT_BYTES_MAX`].
    TooLarge,
    /// The alignment was not a power of two, or above [`super::ALIGN_MAX`].
    BadAlignment,
    /// The range reserved for each slot is exhausted.
    Exhausted,
    /// The system is out of memory or address space.
    NoMemory,
}

impl From<AllocError> for Error {
    fn from(error: AllocError) -> Error {
        match error {
            AllocError::ZeroSize => Error::ZeroSize,
            AllocError::TooLarge => Error::TooLarge,
            AllocError::BadAlignment => Error::BadAlignment,
            AllocError::Exhausted => Error::Exhausted,
            AllocError::NoMemory => Error::NoMemory,
        }
    }
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

impl core::error::Error for Error {}
