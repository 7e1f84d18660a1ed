//! Object caches built of per-CPU sheaves, which are arrays of free objects.
//!
//! ```text
//!   alloc <-- pop -- main sheaf <-- push -- free      one slot, by transactions
//!                     |     `-- spare sheaf           the slot's word is exchanged
//!                   depot                             four lock-free stacks for each cache
//!                     |                               runs of objects of one slab
//!                   slabs                             one bit for each object, out of line
//!                     |
//!             chunks of 2 MiB                         discarded when idle
//! ```
//!
//! Sheaves are those of SLUB (Linux 6.18); the depot of full ones is that of Bonwick's magazines
//! (2001). Free memory is never written, except in hardened and debug caches: the state of an
//! object is in its slab's header, in another part of the address space.
//!
//! The folders, from the bottom up; each uses only those before it:
//!
//! | folder | what it is |
//! |---|---|
//! | `protocol` | steps that a model checker runs: counting of objects, stack of sheaves |
//! | `space` | addresses and what they belong to: window, chunks, headers of slabs |
//! | `parts` | the parts of a cache: shape, lists of slabs, depot, what is deferred |
//! | `records` | what is known of single objects: samples, traps, leaks, last frees |
//! | `moves` | how objects move between slabs, sheaves and slots; which caches there are |
//! | `checked` | samples, debug caches, and the quarantine of hardened ones |
//! | `deferred` | objects that are freed after a grace period |
//! | `returning` | unused memory goes back |
//!
//! Above them are the slow paths, `slow`, `hardened` and `bulk`; [`stats`] and `sampling` (a heap
//! profile on, off and dumped); `layer`, what `sheaves-rcu` calls; `fork`, all locks in order; and
//! the calls, `by_id`, [`raw`] and [`Cache`]. Start reading at `raw`, then at `slow`.
#![no_std]

mod bulk;
#[doc(hidden)]
pub mod by_id;
mod checked;
mod deferred;
mod fork;
mod hardened;
mod layer;
mod moves;
mod parts;
mod protocol;
pub mod raw;
mod records;
mod returning;
#[doc(hidden)]
pub mod sampling;
mod slow;
mod space;
pub mod stats;
mod typed;

pub use returning::shrink::trim;
pub use typed::{Cache, CacheBox};

/// For the other crates of this workspace, their tests and benchmarks. It may change at any time.
#[doc(hidden)]
pub mod internal {
    #[cfg(feature = "faults")]
    pub use crate::deferred::FAULTS;
    pub use crate::deferred::{Emergencies, emergencies};
    pub use crate::parts::shape;
    #[cfg(feature = "faults")]
    pub use crate::records::object_bytes::FINDINGS;
    pub use crate::records::object_bytes::{check_pages, zero};
    pub use crate::records::{bounds, by_address, last_frees, leaks, trap};
    pub use crate::space::cache_id::{CLASSES_MAX, CacheId};
    pub use crate::space::falls::Falls;
    pub use crate::space::{checking, chunk, granule, limit, slab, window};
    pub use crate::{by_id, sampling};
}
