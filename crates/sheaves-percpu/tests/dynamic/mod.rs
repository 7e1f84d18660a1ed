//! Tests of the dynamic allocator, on memory that is not there: it works on offsets. They are part
//! of the crate's unit tests, because they recompute all metadata and compare.
//!
//! `SHEAVES_DYNAMIC_OPERATIONS` sets how many operations the property test does in all; the
//! default takes a few seconds, a million and more is for long runs.

mod arena;
mod batch;
mod growth;
mod input;
mod property;
mod random;
mod statistics;
mod tester;
mod verify;
