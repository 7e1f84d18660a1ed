//! Object caches built of per-CPU sheaves, which are arrays of free objects.
//!
//! ```text
//!   alloc <-- pop -- main sheaf <-- push -- free      one slot, by transactions
//!                     |     `-- spare sheaf           the slot's word is exchanged
//!                   depot                             a lock-free stack for each cache
//!                     |                               runs of objects of one slab
//!                   slabs                             one bit for each object, out of line
//!                     |
//!             chunks of 2 MiB                         discarded when idle
//! ```
//!
//! Sheaves are those of SLUB (Linux 6.18); the depot of full ones is that of Bonwick's magazines
//! (2001).
//!
//! Free memory is never written, except in hardened and debug caches: the state of an object is in
//! its slab's header, in another part of the address space.
//!
//! The modules, from the bottom up; each uses only those before it:
//!
//! | modules | what they are |
//! |---|---|
//! | `mode` | plain, hardened or debug |
//! | `protocol` | steps that a model checker runs: counting of objects, stack of sheaves |
//! | [`window`], `cache_id`, [`granule`] | address space; numbers of caches; the owner map |
//! | `pool`, [`slab`] | memory of sheaves; headers of slabs |
//! | [`limit`], [`chunk`] | the limit on memory; memory of slabs |
//! | [`shape`], `slab_lists`, `depot`, `deferred::queue` | parts of a cache |
//! | `descriptor`, `profile` | the descriptor of each cache; records of samples |
//! | [`guard`] | samples beside inaccessible pages |
//! | [`registry`] | which caches exist |
//! | `earlier`, `tags` | which allocations become samples of a heap profile |
//! | [`trail`] | by which calls blocks were freed, in debug mode |
//! | `contents` | what hardened caches know of the bytes of their objects |
//! | `slot`, `refill`, `flush` | how objects move between sheaves and slabs |
//! | `quarantine` | what is freed in a hardened process |
//! | `samples`, `debug`, `hardened` | slow paths of samples, of debug caches and of hardened ones |
//! | `deferred` | objects that are freed after a grace period |
//! | `keeper`, `surplus` | unused memory goes back by itself: with a keeper, and without one |
//! | `shortage` | what other caches hold unused serves an allocation that would fail |
//! | `slow`, `bulk`, `reclaim`, [`stats`] | slow paths, bulk calls, shrinking, statistics |
//! | `sink` | what `sheaves-rcu` calls |
//! | [`sampling`], [`leaks`] | heap profiles; what debug mode reports at the end |
//! | `fork` | all locks, in their order |
//! | [`raw`], [`Cache`] | the calls; start reading here, then at `slow` |
#![no_std]

mod bulk;
mod cache_id;
pub mod chunk;
mod contents;
mod debug;
mod deferred;
mod depot;
mod descriptor;
mod earlier;
mod flush;
mod fork;
pub mod granule;
pub mod guard;
mod hardened;
mod keeper;
pub mod leaks;
pub mod limit;
pub mod mode;
mod pool;
mod profile;
mod protocol;
mod quarantine;
pub mod raw;
mod reclaim;
mod refill;
pub mod registry;
mod samples;
pub mod sampling;
pub mod shape;
mod shortage;
mod sink;
pub mod slab;
mod slab_lists;
mod slot;
mod slow;
pub mod stats;
mod surplus;
mod tags;
pub mod trail;
mod typed;
pub mod window;

pub use cache_id::{CLASSES_MAX, CacheId};
#[cfg(feature = "faults")]
pub use contents::FINDINGS;
#[cfg(feature = "faults")]
pub use deferred::FAULTS;
pub use deferred::{Emergencies, emergencies};
pub use reclaim::trim;
pub use typed::{Cache, CacheBox};
