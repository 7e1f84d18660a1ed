//! Object caches built of per-CPU sheaves.
//!
//! ```text
//!          pop                            push
//!   alloc <---- sheaf of     sheaf of <---- free     one slot, by transactions
//!               allocations  frees
//!                  |   `-swap-'   |                  whole sheaves, by one exchange
//!                  `---- depot ---'                  a lock-free stack per cache
//!                          |                         runs of objects of one slab
//!                        slabs                       one bit per object, out of line
//!                          |
//!                  chunks of 2 MiB                   discarded when idle
//! ```
//!
//! A sheaf is an array of free objects in front of the slabs, as in SLUB (Linux 6.18); the depot
//! of full arrays is that of Bonwick's magazines (2001).
//!
//! Allocations pop from one sheaf and frees push onto another. With one sheaf for both, every
//! `free` would wait for the cursor that the last `alloc` stored, and vice versa; a free that
//! looks its cache up from the address would put that look-up into the same dependency chain.
//!
//! Start reading at [`raw`] (the calls), then `slow` (the sheaf is empty or full), `refill` and
//! `flush` (between sheaves and slabs), [`slab`] (the state of a slab), [`chunk`] (memory).
//! [`Cache`] is the typed interface.
//!
//! Free memory is never written, except in debug caches: the state of an object is in its slab's
//! header, in another part of the address space.
#![no_std]

#[cfg(all(test, loom))]
extern crate std;

// The protocols that are modelled. loom's atomics fit into no static and no header, so a build for
// loom has only these files and their models.
mod counting;
#[cfg(all(test, loom))]
mod models;
mod stack;

#[cfg(not(loom))]
mod away;
#[cfg(not(loom))]
mod bins;
#[cfg(not(loom))]
mod bulk;
#[cfg(not(loom))]
pub mod chunk;
#[cfg(not(loom))]
mod counts;
#[cfg(not(loom))]
mod debug;
#[cfg(not(loom))]
mod deferred;
#[cfg(not(loom))]
mod depot;
#[cfg(not(loom))]
pub mod descriptor;
#[cfg(not(loom))]
mod flush;
#[cfg(not(loom))]
pub mod granule;
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
pub mod raw;
#[cfg(not(loom))]
mod reclaim;
#[cfg(not(loom))]
mod refill;
#[cfg(not(loom))]
pub mod registry;
#[cfg(not(loom))]
pub mod slab;
#[cfg(not(loom))]
mod slow;
#[cfg(not(loom))]
pub mod stats;
#[cfg(not(loom))]
mod typed;
#[cfg(not(loom))]
pub mod window;

#[cfg(not(loom))]
#[doc(hidden)]
pub use deferred::fail_one_in;
#[cfg(not(loom))]
pub use deferred::{Emergencies, emergencies};
#[cfg(not(loom))]
pub use descriptor::CacheId;
#[cfg(not(loom))]
pub use reclaim::trim;
#[cfg(not(loom))]
pub use typed::{Cache, CacheBox};
