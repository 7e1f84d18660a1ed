//! Stress tests: everything runs concurrently for a chosen time, while checks look for what must
//! not happen. The kernel's torture tests (rcutorture) are the model.
//!
//! Each subject is one module and one subcommand of `sheaves torture`. A run is a function of its
//! options, so that the command and the tests run the same code. A process has one run at a time:
//! signal handlers take part, and they can use static data only.
//!
//! Start reading at [`rcu`] and [`reclaim`].

mod cache_misses;
pub mod cli;
mod crew;
mod engine;
mod pipeline;
mod random;
pub mod rcu;
pub mod reclaim;
mod rounds;
mod signals;
