//! Tests of the dynamic allocator without memory, because it works on offsets. They are part of the
//! crate's unit tests, because they recompute all metadata and compare.
//!
//! `SHEAVES_DYNAMIC_OPERATIONS` sets the total number of operations of the property test. The
//! default takes a few seconds; use a million or more for long runs.

mod arena;
mod batch;
mod growth;
mod input;
mod property;
mod random;
mod statistics;
mod tester;
mod verify;
