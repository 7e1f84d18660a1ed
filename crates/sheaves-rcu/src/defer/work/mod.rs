//! What reclaims it, and when. Nothing here is called by programs.
//!
//! From the bottom up: `watch` (callbacks that take long); `sink`, `calls`, `channel` (what is
//! reclaimed); `keeper` (unused memory); `driver`, `round` (how); `futures`, `bell`, `reclaimer`
//! and `requests` (when).

pub(crate) mod bell;
pub(crate) mod calls;
pub(crate) mod channel;
pub(crate) mod driver;
pub(crate) mod futures;
pub(crate) mod keeper;
pub(crate) mod reclaimer;
pub(crate) mod requests;
pub(crate) mod round;
pub(crate) mod sink;
pub(crate) mod watch;
