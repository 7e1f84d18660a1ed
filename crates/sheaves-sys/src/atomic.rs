//! The switch between the atomics of `core` and those of the model checker.
//!
//! Protocol code (the sheaf stacks, the slab counters) imports its atomics from here, so that a
//! build with `--cfg loom` runs the same source under the model checker.

#[cfg(not(loom))]
pub use core::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering, fence,
};

#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicI64, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering, fence,
};
