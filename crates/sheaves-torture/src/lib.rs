//! Torture: everything at once, for as long as one likes, and a watch for what must not happen.
//!
//! Each subject is one module and one subcommand of `sheaves torture`. A run is a function of its
//! options, so that the command and the tests run the same. There is one run at a time in a
//! process: signal handlers take part, and these know static things only.
//!
//! Start reading at [`rcu`] and [`reclaim`].

pub mod cli;
mod clutter;
mod crew;
mod engine;
mod pipeline;
mod random;
pub mod rcu;
pub mod reclaim;
mod rounds;
mod signals;
