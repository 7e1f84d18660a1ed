//! Where something deferred waits until it is reclaimed. Nothing here waits or runs a callback.
//!
//! From the bottom up: `pressure` (how much is pending), `head`, `list` (linked heads), `extents`
//! (memory), `emergency` (memory is out), `queue` (sealed sheaves), `shard`.

pub(crate) mod emergency;
pub(crate) mod extents;
pub(crate) mod head;
pub(crate) mod list;
pub(crate) mod pressure;
pub(crate) mod queue;
pub(crate) mod shard;
