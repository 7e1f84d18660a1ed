//! Deferred reclamation: frees or calls something after a grace period.
//!
//! | to do | call | blocks |
//! |---|---|---|
//! | call a function, with a head in the object | [`call_rcu`], [`call_hurry`] | never |
//! | call a closure | [`fn@crate::defer`] | never; allocates |
//! | the same for readers of a domain | [`crate::Srcu::call`] | never |
//! | free large or foreign memory | [`Channel::free_later_with`] | never |
//! | the same without a head | [`Channel::free_later`] | only when memory is out |
//! | wait until everything deferred is done (`rcu_barrier`) | [`barrier`] | yes |
//! | the same for the callbacks of a domain | [`crate::Srcu::barrier`] | yes |
//! | have it done soon | [`flush`] | never |
//! | do it from the main loop of a single-threaded program | [`reclaim`] | never |
//!
//! Objects of caches are deferred by the layers above, which store them.
//!
//! Callbacks run in one thread, the *reclaimer*. Objects of caches are also taken back by threads
//! that allocate from the cache or seal a sheaf of it. It starts when something is deferred,
//! blocks the signals that come from outside, is named `sheaves-rcu`, and ends when there was
//! nothing to do for two seconds. What is pending is *sealed* after 20 ms at the latest, for one
//! grace period that all of it shares: sooner when a sheaf is full, when many bytes are pending
//! (1/64 of `SHEAVES_RCU_BYTES`), or on request ([`flush`], [`barrier`], [`call_hurry`]). Callbacks
//! run in the reclaimer, one after the other, and otherwise only in [`reclaim`] (and in [`barrier`]
//! where there is no reclaimer). With `SHEAVES_RCU_RECLAIMERS=slots` they run in worker threads, in
//! parallel: one for each CPU that the main thread may use, 16 at most. Those of
//! [`Srcu`](crate::Srcu) and of channels do not.
//!
//! What callbacks defer in turn is sealed at the end of their batch, and gets the next grace period
//! at once: a list that is dropped node by node takes a microsecond a node, or a membarrier beside
//! threads that read. That may take 20 s at a stretch, and a sixteenth of the time after that: what
//! callbacks defer beyond it, such as their own heads again and again, waits for the 20 ms.
//!
//! Order: callbacks that one thread defers run in that order while it stays in one slot and memory
//! is available. There is none between slots: a program that needs it calls [`barrier`].
//!
//! A panic in a callback aborts the process. What is pending when the process ends is neither
//! called nor freed: a program that needs it calls [`barrier`] before.
//!
//! The child of a fork inherits what is pending, and reclaims it when it defers something itself,
//! calls [`reclaim`], or waits. A callback that another thread ran during the fork is not called
//! again.
//!
//! From the bottom up: `store` (where it waits), `work` (what reclaims it, and when), and what
//! programs call: `finished`, `call_rcu`, `free_later`, `barrier` and `statistics`.

mod barrier;
mod call_rcu;
#[cfg(feature = "faults")]
#[path = "../../tests/unit/faults.rs"]
pub(crate) mod faults;
mod finished;
mod free_later;
mod statistics;
pub(crate) mod store;
pub(crate) mod work;

pub use barrier::{BarrierError, barrier, flush, reclaim};
pub use call_rcu::{call_hurry, call_rcu, defer};
pub use finished::Finished;
pub use statistics::{LayerPending, Statistics, statistics};
pub use store::emergency::Emergencies;
pub use store::shard::Pending;
pub use work::channel::Channel;
pub use work::reclaimer::before_sandbox;

pub use crate::heads::{Call, Head};
