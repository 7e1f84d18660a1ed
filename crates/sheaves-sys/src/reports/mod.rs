//! Reports: lines, stacks and names in them, accesses that fail, and what tracers and sanitizers
//! are told. May not allocate, take a lock of the loader, or read memory that may be gone.

pub mod fault;
mod peek;
pub mod probe;
pub mod report;
pub mod sleeper;
pub mod stack;
pub mod symbol;
pub mod trace;
pub mod tsan;
