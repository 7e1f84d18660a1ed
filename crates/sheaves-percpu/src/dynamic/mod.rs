//! The allocator of dynamic per-CPU memory.
//!
//! It divides the rows of all slots at once: what it hands out is an [`Offset`], and the object
//! lies at that offset in every slot's row. It is a data structure over numbers: it never touches
//! the memory that it hands out, makes no system call and holds no lock. Whoever owns the memory
//! gives it a [`Backing`] and a lock around each call.
//!
//! # How it works
//!
//! Memory comes in *chunks* of one unit per slot. A chunk has a map with one bit for every four
//! bytes, and a second one for where objects begin and end. Each page of it is a *block*, whose
//! hints say what its part of the map would: its longest free run, the longest one before that,
//! the runs at both edges, the first free bit. The chunk has such hints too. So a request walks
//! over hints and reads the map only where it will find room.
//!
//! Chunks are in lists by their longest free run, so that a request begins with the fullest chunk
//! that can hold it, and chunks with nothing but holes too small are never looked at.
//!
//! Pages are *populated* when an object comes to lie on them. Pages that have become empty are
//! given back when there are many, by [`Allocator::balance`].
//!
//! Chunks, blocks, their hints and the scan hint are those of Linux's `mm/percpu.c`; here all hints
//! are exact. Its algorithms of 2019 are in the crate `sheaves-history`, to be raced against.
//!
//! # Errors, blocking, fork, signals
//! Bad input is an error value and changes nothing. Nothing blocks. The state is plain memory: a
//! child of `fork` has a consistent copy, if its parent's lock was held around the fork. Nothing
//! here may be called from a signal handler that can interrupt another call.

mod allocator;
pub mod backing;
mod balance;
mod batch;
mod bits;
mod chunk;
mod config;
mod counters;
mod error;
mod hints;
mod lists;
mod records;
mod refresh;
mod search;
mod statistics;
#[cfg(test)]
#[path = "../../tests/dynamic/mod.rs"]
mod tests;

pub use allocator::Allocator;
pub use backing::Backing;
pub use config::{
    ALIGN_MAX, Config, GRAIN_BYTES, OBJECT_BYTES_MAX, Offset, PAGE_BYTES, UNIT_BYTES_MAX,
    UNIT_BYTES_MIN,
};
#[cfg(any(test, feature = "counters"))]
pub use counters::Counters;
pub use error::{AllocError, FreeError, NewError};
pub use statistics::Statistics;
