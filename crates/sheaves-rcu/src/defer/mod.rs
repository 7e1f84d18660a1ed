//! Deferred reclamation: what is freed or called once the readers of now are gone.
//!
//! | to do | call | blocks |
//! |---|---|---|
//! | call a function later, with a head in the object | [`call_rcu`], [`call_hurry`] | never |
//! | call a closure later | [`fn@crate::defer`] | never; allocates |
//! | free large or foreign memory later | [`Channel::free_later_with`] | never |
//! | the same without a head | [`Channel::free_later`] | without memory |
//! | wait until all that is done | [`barrier`] | yes |
//! | have it done soon | [`flush`] | never |
//! | do it from the main loop of a program without threads | [`poll`] | never |
//!
//! Objects of caches are deferred by the layers above, which hold them themselves: they are
//! [`Sink`]s, which seal batches, give each a [`Cookie`](crate::Cookie), and take them back.
//!
//! One thread, the reclaimer, does what nobody else has done. It starts when something is deferred
//! for the first time, blocks all signals, is named `sheaves-rcu`, and sleeps without end while
//! nothing is deferred. What is deferred is sealed after 20 ms at the latest, for one grace period
//! that everything shares; sooner where a buffer of calls is full, by bytes ([`Pressure`]), or when
//! somebody asks ([`flush`], [`barrier`], [`call_hurry`]). Calls run in it, one after the other,
//! and nowhere else but in [`poll`] (and in [`barrier`] where there is no reclaimer). With
//! `SHEAVES_RCU_RECLAIMERS=slots` they run in threads of their own instead, one pinned to each
//! processor, those of different slots at the same time.
//!
//! In which order: calls that one thread defers run in that order while it stays in one slot and
//! there is memory; between slots nothing is promised. Who needs an order takes [`barrier`].
//!
//! A child of a fork inherits what is pending, and does it when it defers something itself, polls,
//! or waits. What another thread was calling at the moment of the fork is not called again.
//!
//! Start reading at `calls` (how a call waits), `round` (how everything is taken back), `reclaimer`
//! (when); `pressure` knows how much there is, `emergency` what is done without memory, `options`
//! what the environment says.

mod calls;
mod channel;
mod closure;
mod driver;
mod emergency;
mod fault;
pub(crate) mod fork;
mod head;
mod linked;
mod options;
mod pool;
mod pressure;
mod queue;
mod reclaimer;
mod round;
mod shard;
mod sink;
mod statistics;
mod system;
mod watch;
mod workers;

pub use calls::{call_hurry, call_rcu};
pub use channel::Channel;
pub use closure::defer;
pub use emergency::Emergencies;
#[doc(hidden)]
pub use fault::{Faults, fail_one_in};
pub use head::{Call, Head};
pub use pressure::{Pressure, after_seal, arm, note_reclaimed, note_sealed, pressure};
pub use reclaimer::reclaimer_thread;
pub use round::{BarrierError, barrier, flush, poll};
pub use sink::{Pending, SINKS_MAX, Sink, register};
pub use statistics::{SinkPending, Statistics, statistics};
