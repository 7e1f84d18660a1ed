//! Reports: lines, stacks and names in them, accesses that fail, and what tracers and sanitizers
//! are told. May not allocate, take a lock of the loader, or read memory that may be gone: but for
//! [`unwind::find`].

pub mod fault;
mod peek;
pub mod probe;
pub mod report;
pub mod sleeper;
pub mod stack;
pub mod symbol;
pub mod trace;
pub mod tsan;
pub mod unwind;
