//! Read-copy-update for user-space Linux programs: read sections cost a few instructions, and
//! updaters wait for a grace period before they free what they unlinked.
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
//! Start reading at `word` (the words that a reader writes), `reader` (how it writes them), `grace`
//! (the steps of a grace period and their proof), `fences` (which threads need no membarrier),
//! `generation` (waiters and leaders), `registry` (threads).
//!
//! Threads need no registration. No thread runs in the background until a future has to wait or
//! something is deferred. All memory is mapped directly from the kernel, except the boxes of
//! [`RcuCell`] and of deferred closures.
//!
//! The environment variables `SHEAVES_RCU` and `SHEAVES_RCU_...` are documented in the crate
//! `sheaves`.
//!
//! The first use decides whether readers fence. If a seccomp filter refuses membarrier to a thread
//! after that, the thread waits until another thread leads its grace periods, and this is reported.
//! A program that will refuse membarrier to all of its threads needs `SHEAVES_RCU_FENCES=1`, or the
//! filter from the start.
#![no_std]

// For the boxes of [`RcuCell`] and of deferred closures; nothing else here allocates.
#[cfg(not(loom))]
extern crate alloc;
#[cfg(all(test, loom))]
extern crate std;

// The modelled protocols. Loom's atomics cannot be in a `static`, so a build for loom has these
// files and their models only.
mod generation;
#[cfg(all(test, loom))]
mod models;
#[cfg_attr(all(loom, not(test)), expect(dead_code, reason = "models alone use it"))]
mod owner;
#[cfg_attr(all(loom, not(test)), expect(dead_code, reason = "models alone use it"))]
mod word;

#[cfg(not(loom))]
mod cell;
#[cfg(not(loom))]
mod cookie;
#[cfg(not(loom))]
pub mod defer;
#[cfg(not(loom))]
mod expedite;
#[cfg(not(loom))]
mod fences;
#[cfg(not(loom))]
mod fork;
#[cfg(not(loom))]
mod grace;
#[cfg(not(loom))]
mod guard;
#[cfg(not(loom))]
mod later;
#[cfg(not(loom))]
mod mode;
#[cfg(not(loom))]
mod reader;
#[cfg(not(loom))]
mod registry;
#[cfg(not(loom))]
mod retired;
#[cfg(not(loom))]
mod srcu;
#[cfg(not(loom))]
pub mod stall;

#[cfg(not(loom))]
pub use cell::{RcuCell, RcuOption};
#[cfg(not(loom))]
pub use cookie::{Cookie, synchronize, synchronize_expedited};
#[cfg(not(loom))]
pub use defer::defer;
#[cfg(not(loom))]
pub use expedite::{Expedite, end_startup, expedite};
#[cfg(not(loom))]
pub use grace::{InsideReader, Statistics, statistics};
#[cfg(not(loom))]
pub use guard::{Guard, enter_idle, is_reading, raw, read};
#[cfg(not(loom))]
pub use later::Finished;
#[cfg(not(loom))]
pub use retired::Retired;
#[cfg(not(loom))]
pub use srcu::{Srcu, SrcuGuard};
