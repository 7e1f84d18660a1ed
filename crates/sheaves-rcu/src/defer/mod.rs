//! Deferred reclamation: frees or calls something after a grace period.
//!
//! | to do | call | blocks |
//! |---|---|---|
//! | call a function, with a head in the object | [`call_rcu`], [`call_hurry`] | never |
//! | call a closure | [`fn@crate::defer`] | never; allocates |
//! | free large or foreign memory | [`Channel::free_later_with`] | never |
//! | the same without a head | [`Channel::free_later`] | only when memory is out |
//! | wait until everything deferred is done (`rcu_barrier`) | [`barrier`] | yes |
//! | have it done soon | [`flush`] | never |
//! | do it from the main loop of a single-threaded program | [`poll`] | never |
//!
//! Objects of caches are deferred by the layers above, which store them. Each such layer is a
//! [`Sink`]: it seals batches, gives each a [`Cookie`](crate::Cookie), and reclaims it when the
//! cookie has passed.
//!
//! Everything is reclaimed by one thread, the *reclaimer*. It starts when something is deferred,
//! blocks the signals that come from outside, is named `sheaves-rcu`, and ends when there was
//! nothing to do for two seconds. What is pending is *sealed* after 20 ms at the latest, for one
//! grace period that all of it shares: sooner when a sheaf is full, when many bytes are pending
//! ([`Pressure`]), or on request ([`flush`], [`barrier`], [`call_hurry`]). Callbacks run in the
//! reclaimer, one after the other, and otherwise only in [`poll`] (and in [`barrier`] where there
//! is no reclaimer). With `SHEAVES_RCU_RECLAIMERS=slots` they run in one worker thread per CPU
//! instead, in parallel.
//!
//! Order: callbacks that one thread defers run in that order while it stays in one slot and memory
//! is available. There is no order between slots. A program that needs one calls [`barrier`].
//!
//! The child of a fork inherits what is pending, and reclaims it when it defers something itself,
//! polls, or waits. A callback that another thread was running during the fork is not called again.
//!
//! The reclaimer is also the keeper, which has unused memory returned to the kernel: [`keep`].
//!
//! From the bottom up: `pressure` (what is pending), `watch` (callbacks that take long);
//! `head`, `list`, `extents`, `emergency` (memory), `queue` (sealed sheaves) and `shard`; `calls`,
//! `channel`, `sink`; `keeper`; `driver`, `round` (how everything is reclaimed), `futures` and
//! `reclaimer` (when); `finished`, `call_rcu`, `free_later`, `barrier` and `statistics`, which
//! programs call.

mod barrier;
mod call_rcu;
mod calls;
mod channel;
mod driver;
mod emergency;
mod extents;
#[cfg(feature = "faults")]
#[doc(hidden)]
#[path = "../../tests/unit/faults.rs"]
pub mod faults;
mod finished;
mod free_later;
mod futures;
mod head;
mod keeper;
mod list;
mod pressure;
mod queue;
mod reclaimer;
mod round;
mod shard;
mod sink;
mod statistics;
mod watch;

pub use barrier::{BarrierError, barrier, flush, poll};
pub use call_rcu::{call_hurry, call_rcu, defer};
pub use channel::Channel;
pub use emergency::{Emergencies, free_without_memory};
pub use finished::Finished;
pub use head::{Call, Head};
pub use keeper::{decay_ms, is_armed, is_kept, is_overdue, look_here, period_ms, will_find};
pub use pressure::{Pressure, note_reclaimed, note_sealed, pressure};
pub use queue::{Open, Queue, STATE_ENTRIES, Sealed};
pub use reclaimer::{
    after_seal, arm, before_sandbox, is_reclaimer, keep, keep_if_running, reclaimer_thread,
    request_fence, request_sweep, serve,
};
pub use sheaves_sys::membarrier::Reach;
pub use sink::{Pending, SINKS_MAX, Sink, register, return_all};
pub use statistics::{SinkPending, Statistics, statistics};
