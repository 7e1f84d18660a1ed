//! Dynamic per-CPU memory: objects of up to 32 KiB, with a copy in every slot.
//!
//! [`alloc`] returns one [`Handle`] for all slots. The object of slot `s` is at
//! `base + s * stride + offset`, with one stride for all objects, as in the kernel's
//! `alloc_percpu`. Most programs use the types built on it: [`crate::PerCpu`], [`crate::Counter`],
//! [`crate::PerCpuRef`].
//!
//! ```
//! # mod sheaves { pub use sheaves_percpu as percpu; }
//! use sheaves::percpu::memory;
//!
//! let hits = memory::alloc(8, 8)?;
//! // SAFETY: only transactions use the word, and it is freed after the last one.
//! let cell = unsafe { hits.cell::<u64>(0) };
//! cell.add(5);
//! assert_eq!(cell.sum(), 5);
//! // SAFETY: the object is not used any more.
//! unsafe { memory::free(hits) }.unwrap();
//! # Ok::<(), memory::Error>(())
//! ```
//!
//! A handle contains the object's size and is refused when freed twice. The check costs [`free`] an
//! atomic instruction. It also costs memory, once and not per slot: a sixteenth of the object's
//! size, or an eighth for objects below 16 bytes. A [`crate::PerCpu`] needs neither: its type gives
//! the size, and it has one owner.
//!
//! Objects are zero in every slot at first. The memory of a slot that no thread uses costs nothing.
//! A page of a slot costs memory after the first write to it; one without objects is discarded.
//!
//! # Parts and their locks
//!
//! | part | what it is | lock |
//! |---|---|---|
//! | `caches` | a few free objects per slot and size class | none: transactions |
//! | `state` | the allocator of `dynamic/`, and empty sheaves | memory lock |
//! | its `Rows` | commits more of the rows when chunks are created | slots lock, inside |
//! | `objects` | zeroes objects when they are freed | none |
//! | `handle_map` | which objects are allocated by handle | none: atomics |
//!
//! The memory lock is taken before the slots lock. A fork takes both, so that the child can
//! continue. An object that another thread was moving between a cache and the allocator at the fork
//! is lost in the child; nothing else is.

pub(crate) mod access;
pub(crate) mod caches;
pub(crate) mod class;
mod handle;
mod handle_map;
pub(crate) mod objects;
pub(crate) mod state;

pub use handle::Handle;
pub use state::{Statistics, statistics};

pub use crate::dynamic::Statistics as AllocatorStatistics;
pub use crate::dynamic::{ALIGN_MAX, Error, FreeError, OBJECT_BYTES_MAX};

use crate::dynamic::Shape;
use crate::rows;
use crate::word::BLOCK_BYTES;
use state::{MEMORY, is_open};

/// Allocates `size` zero bytes in every slot, at a multiple of `align`. The size is from 1 to
/// [`OBJECT_BYTES_MAX`], the alignment a power of two up to [`ALIGN_MAX`].
///
/// Sizes up to 256 bytes mostly need no lock. Otherwise the call may sleep on a lock that is held
/// for microseconds, and may make system calls. Not async-signal-safe.
///
/// # Errors
/// See [`Error`].
pub fn alloc(size: usize, align: usize) -> Result<Handle, Error> {
    let shape = Shape::new(size, align)?.at_least(handle_map::BYTES_MIN);
    let offset = objects::alloc(shape)?;
    handle_map::set(offset, shape.size);
    Handle::new(offset, size, align).ok_or(Error::NoMemory)
}

/// Frees an object. May sleep as [`alloc`] may.
///
/// # Errors
/// A handle without an allocated object is refused, and nothing happens: [`FreeError::Foreign`]
/// when its place is outside of all memory so far, [`FreeError::AlreadyFree`] when no object with
/// this handle begins there. A second
/// free is undetected once another object begins at the same place.
///
/// # Safety
/// If the handle's object is allocated: it is not used any more, in any slot.
pub unsafe fn free(handle: Handle) -> Result<(), FreeError> {
    let (offset, size, align) = (handle.offset(), handle.size(), handle.align());
    let shape = Shape::new(size, align).map_err(|_| FreeError::Foreign)?;
    let shape = shape.at_least(handle_map::BYTES_MIN);
    let end = offset + shape.size;
    if !is_open() || offset < BLOCK_BYTES || end > rows::committed_bytes() {
        return Err(FreeError::Foreign);
    }
    if !handle_map::clear(offset, shape.size) {
        return Err(FreeError::AlreadyFree);
    }
    // SAFETY: the object was allocated by handle, and clearing its byte makes this call the only
    // one that frees it; the caller guarantees that it is not used any more.
    unsafe { objects::free(offset, shape) };
    Ok(())
}

/// Trims: flushes the caches of all slots to the allocator, and discards pages without an object.
///
/// Interrupts the CPUs that run this process, as a drain does. May sleep.
pub fn trim() {
    caches::drain();
    let mut from = Some(0);
    while let Some(next) = from {
        from = MEMORY.lock().allocator.as_mut().and_then(|allocator| allocator.trim(next));
    }
}
