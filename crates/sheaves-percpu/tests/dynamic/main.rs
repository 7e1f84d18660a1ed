//! Tests of the dynamic allocator from outside, on memory that is not there: it works on offsets.
//!
//! `SHEAVES_DYNAMIC_OPERATIONS` sets how many operations the property test does in all; the
//! default takes a few seconds, a million and more is for long runs.

mod arena;
mod batch;
mod defects;
mod growth;
mod input;
mod property;
mod race;
mod random;
mod statistics;
mod tester;
mod variant;
