//! Grace periods: when they begin and end, and what waits for them.
//!
//! From the bottom up: `expedite` (how urgent they are), `stall` (reports of readers that delay
//! them), `times` (how long they took), `backoff` (how leaders wait), `period` (the steps and their
//! proof), `survey` (what they do at this moment), `cookie` (polling and waiting), `srcu` (domains
//! of their own).

mod backoff;
pub(crate) mod cookie;
pub(crate) mod expedite;
pub(crate) mod period;
pub(crate) mod srcu;
pub mod stall;
pub(crate) mod survey;
mod times;
