//! The allocator of dynamic per-CPU memory.
//!
//! It divides the rows of all slots at once: it returns an offset, and the object is at that
//! offset in every slot's row. It is a data structure over numbers: it never touches the memory
//! that it allocates, makes no system call and holds no lock. The owner of the memory provides a
//! [`Backing`] and holds a lock around each call.
//!
//! # How it works
//!
//! Memory comes in *chunks* of one unit per slot. A chunk has a bitmap with one bit per four bytes,
//! and a second one for the beginnings and ends of objects. Each *page* of a chunk has
//! hints about its part of the bitmap: its longest free run, the longest one before that, the runs
//! at both edges, and the first free bit. The chunk has such hints, too. So a request walks over
//! hints, and reads the bitmap only where it will find space.
//!
//! Chunks are in lists by their longest free run. So a request begins with the fullest chunk that
//! can hold it, and never visits chunks with only smaller holes.
//!
//! A page is *populated* when an object is placed on it. [`Allocator::balance`] discards empty
//! pages when there are many.
//!
//! Chunks, pages, their hints and the scan hint are those of Linux's `mm/percpu.c`; here all hints
//! are exact. Its algorithms of 2019 are in the crate `sheaves-history`, as benchmark peers.
//!
//! # Errors, blocking, fork, signals
//! Bad input returns an error value and changes nothing. Nothing waits. The state is plain memory:
//! a fork's child has a consistent copy if the parent's lock was held around the fork. Nothing here
//! may be called from a signal handler that can interrupt another call.

mod allocator;
mod backing;
mod batch;
pub mod bits;
mod chunk;
mod config;
#[cfg(any(test, feature = "counters"))]
#[path = "../../tests/unit/counters.rs"]
mod counters;
#[cfg(not(any(test, feature = "counters")))]
#[path = "uncounted.rs"]
mod counters;
mod hints;
mod lists;
mod records;
mod refresh;
#[cfg(test)]
#[path = "../../tests/dynamic/mod.rs"]
mod tests;

pub use allocator::{Allocator, Statistics};
pub use backing::Backing;
pub(crate) use config::Shape;
pub use config::{ALIGN_MAX, Config, Error, FreeError, OBJECT_BYTES_MAX, PAGE_BYTES};
#[cfg(any(test, feature = "counters"))]
pub use counters::Counters;
