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

mod bins;
mod bulk;
pub mod chunk;
mod debug;
mod depot;
pub mod descriptor;
mod flush;
pub mod granule;
mod pool;
pub mod raw;
mod reclaim;
mod refill;
pub mod registry;
pub mod slab;
mod slow;
mod stack;
pub mod stats;
mod typed;
pub mod window;

pub use descriptor::CacheId;
pub use reclaim::trim;
pub use typed::{Cache, CacheBox};
