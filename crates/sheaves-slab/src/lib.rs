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
//!                  chunks of 2 MiB                   given back when idle
//! ```
//!
//! Allocations pop from one sheaf and frees push onto another: if both used one, every `free`
//! would have to wait for the cursor that the last `alloc` stored and the other way round, and a
//! free that looks its cache up from the address would put that look-up into the same chain.
//!
//! Start reading at [`raw`] (the calls), then `slow` (what happens when the sheaf is at its end),
//! `refill` and `flush` (between sheaves and slabs), [`slab`] (the state of a slab), [`chunk`]
//! (memory). [`Cache`] is the typed face.
//!
//! Free memory is never written (debug caches aside): what is known of an object is in its slab's
//! header, in another part of the address space.
#![no_std]

#[cfg(all(test, loom))]
extern crate std;

// The protocols that are modelled. A model checker's atomics fit into no static and no header, so
// that a build for it has these files and their models alone.
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
