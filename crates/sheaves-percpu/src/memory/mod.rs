//! Dynamic per-CPU memory: objects of any size that have a place in every slot.
//!
//! [`alloc`] gives one [`Handle`] for all slots; the object of slot `s` lies at
//! `base + s * stride + offset`, with one stride for all. Most programs want the types on top:
//! [`crate::PerCpu`], [`crate::Counter`], [`crate::PerCpuRef`].
//!
//! ```
//! use sheaves_percpu::memory;
//!
//! let hits = memory::alloc(8, 8)?;
//! // SAFETY: the word is in use by transactions only, and freed after the last one.
//! unsafe { memory::add(hits, 0, 5) };
//! // SAFETY: as above.
//! assert_eq!(unsafe { memory::sum(hits, 0) }, 5);
//! // SAFETY: nobody uses the object any more.
//! unsafe { memory::free(hits) }.unwrap();
//! # Ok::<(), memory::Error>(())
//! ```
//!
//! A handle knows its size and refuses to be freed twice. For that [`free`] has an atomic
//! instruction, and the objects need a sixteenth of what they take in one slot, an eighth where
//! they are below 16 bytes, once for all slots. A [`crate::PerCpu`] needs neither: its type knows
//! the size, and it has one owner.
//!
//! Objects begin as zeroes in every slot. Memory of slots that no thread uses costs nothing, a
//! page of a slot costs memory once something is written to it, and pages without an object go back
//! to the system.
//!
//! # What is under which lock
//!
//! | part | what it is | lock |
//! |---|---|---|
//! | `caches` | per slot and size class, some free objects at hand | none: transactions |
//! | `state` | the allocator, see [`crate::dynamic`], and empty sheaves | memory lock |
//! | `backing` | rows are committed further as chunks are made | slots lock, inside |
//! | `clear` | objects are zeroed when they are given back | none |
//! | `live` | which objects are out by handle | none: atomics |
//!
//! The memory lock is taken before the slots lock and both before a fork, so a child can go on.
//! What another thread held at the moment of the fork (an object between a cache and the allocator)
//! is lost to the child, no more.

pub(crate) mod access;
pub(crate) mod backing;
pub(crate) mod caches;
mod class;
pub(crate) mod clear;
mod error;
mod handle;
mod live;
mod pool;
pub(crate) mod state;
mod statistics;

pub use access::{add, address, cmp_store, load, sum};
pub use error::Error;
pub use handle::Handle;
pub use statistics::{Statistics, statistics};

pub use crate::dynamic::{ALIGN_MAX, FreeError, OBJECT_BYTES_MAX};

use clear::Reach;
use state::Shape;

/// The smallest object behind a handle; smaller ones get this size.
const HANDLE_BYTES_MIN: usize = live::BYTES_MIN;

/// Allocates `size` bytes in every slot, from 1 to [`OBJECT_BYTES_MAX`], at a multiple of `align`,
/// a power of two up to [`ALIGN_MAX`]. They are zero.
///
/// Up to 256 bytes mostly without a lock; otherwise it may sleep on a lock that is held for
/// microseconds, and make system calls. Not async-signal-safe.
///
/// # Errors
/// See [`Error`].
pub fn alloc(size: usize, align: usize) -> Result<Handle, Error> {
    let shape = Shape::new(size, align)?.at_least(HANDLE_BYTES_MIN);
    let offset = state::take(shape)?;
    live::set(offset, shape.size());
    Handle::new(offset, size, align).ok_or(Error::NoMemory)
}

/// Gives an object back. Blocks as [`alloc`] does.
///
/// # Errors
/// What is no object now is refused and nothing happens: a handle for which nothing was allocated
/// is [`FreeError::Foreign`], one that was freed before [`FreeError::AlreadyFree`]. That cannot
/// be told any more once another object begins at the same place.
///
/// # Safety
/// If the handle's object is out: nobody uses it any more, in any slot.
pub unsafe fn free(handle: Handle) -> Result<(), FreeError> {
    let (offset, size, align) = (handle.offset(), handle.size(), handle.align());
    let shape = Shape::new(size, align).map_err(|_| FreeError::Foreign)?;
    let shape = shape.at_least(HANDLE_BYTES_MIN);
    if !state::is_inside(offset, shape) {
        return Err(FreeError::Foreign);
    }
    if !live::clear(offset, shape.size()) {
        return Err(FreeError::AlreadyFree);
    }
    // SAFETY: the object was out by handle, and its mark makes us the only one to free it; the
    // caller vouches for its disuse.
    unsafe { state::give(offset, shape, Reach::Open) };
    Ok(())
}

/// Gives everything back that is not in use: the objects in the caches of all slots to the
/// allocator, and pages without an object to the system.
///
/// Interrupts the processors that run this process, as draining does. May sleep.
pub fn trim() {
    caches::drain();
    state::trim();
}
