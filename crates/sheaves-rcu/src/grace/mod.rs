//! Grace periods: when they begin and end, and what waits for them.
//!
//! From the bottom up: `expedite` (how urgent they are), `stall` (reports of readers that delay
//! them), `period` (the steps and their proof), `cookie` and `futures` (polling and waiting),
//! `srcu` (domains of their own).

pub(crate) mod cookie;
pub(crate) mod expedite;
pub(crate) mod futures;
pub(crate) mod period;
pub(crate) mod srcu;
pub mod stall;
