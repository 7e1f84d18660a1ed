//! Read-copy-update for user-space Linux programs: read sections cost a few instructions, and
//! updaters free what they have unlinked after a grace period.
//!
//! ```
//! use sheaves_rcu::{read, synchronize};
//!
//! {
//!     let _guard = read();
//! // What is reachable here stays valid until the guard is dropped.
//! }
//! // Unlink something, then wait for the readers that may still use it.
//! synchronize()?;
//! # Ok::<(), sheaves_rcu::InsideReader>(())
//! ```
//!
//! | to do | call | blocks |
//! |---|---|---|
//! | enter a read section | [`read`] | never |
//! | keep a value that is read often and replaced as a whole | [`RcuCell`], [`RcuOption`] | never |
//! | hold a section across an `.await`, or end it in another thread | [`Srcu`] | never |
//! | wait for a grace period | [`synchronize`], [`synchronize_expedited`] | yes |
//! | ask whether a grace period has passed | [`Cookie`] | never |
//! | wait for a grace period in an `async` function | [`Cookie::finished`] | never |
//! | free or call something after a grace period | [`mod@defer`], [`fn@defer`] | never |
//!
//! The modules, from the bottom up; each uses those below it only: `options`, `protocol` (what is
//! modelled: readers, owners of records, generations of waiters), `reader` (records and sections),
//! `grace` (grace periods; their steps and the proof are in `grace::period`), `defer`, `cell`.
//!
//! Threads need no registration. No thread runs in the background until a future has to wait or
//! something is deferred. All memory is mapped directly from the kernel, except the boxes of
//! [`RcuCell`] and of deferred closures. The environment variables `SHEAVES_RCU...` are documented
//! in the crate `sheaves`.
//!
//! The first use decides whether readers fence. If a seccomp filter refuses membarrier to a thread
//! later, this is reported, and the thread waits until another one leads its grace periods. If it
//! will refuse membarrier to all threads, set `SHEAVES_RCU_FENCES=1`, or the filter from the start.
#![no_std]

// For the boxes of [`RcuCell`] and of deferred closures; nothing else here allocates.
extern crate alloc;

mod cell;
pub mod defer;
mod grace;
mod options;
mod protocol;
mod reader;

pub use cell::retired::Retired;
pub use cell::value::{RcuCell, RcuOption};
pub use defer::defer;
pub use grace::cookie::{Cookie, synchronize, synchronize_expedited};
pub use grace::expedite::{Expedite, end_startup, expedite};
pub use grace::futures::Finished;
pub use grace::lengths::LENGTHS;
pub use grace::period::{InsideReader, Statistics, statistics};
pub use grace::srcu::{Srcu, SrcuGuard};
pub use grace::stall;
pub use grace::survey::{Reading, Section, Survey, readers, section, survey};
pub use reader::fences::enter_idle;
pub use reader::guard::{Guard, raw, read};
pub use reader::section::is_reading;
