//! Where something deferred waits until it is reclaimed. Nothing here waits or runs a callback.
//!
//! From the bottom up: `pressure` (how much is pending), `extents` (memory), `emergency`
//! (memory is out), `queue` (sealed sheaves), `shard`.

pub(crate) mod emergency;
pub(crate) mod extents;
pub(crate) mod pressure;
pub(crate) mod queue;
pub(crate) mod shard;
