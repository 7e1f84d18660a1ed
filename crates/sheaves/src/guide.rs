//! A guide in four pages: what to choose, how to build structures of one's own, what is permitted
//! beside `fork` and signals, and what the names of other crates are here.

#[doc = include_str!("../guide/choosing.md")]
pub mod choosing {}

#[doc = include_str!("../guide/structures.md")]
pub mod structures {}

#[doc = include_str!("../guide/fork_and_signals.md")]
pub mod fork_and_signals {}

#[doc = include_str!("../guide/migrating.md")]
pub mod migrating {}
