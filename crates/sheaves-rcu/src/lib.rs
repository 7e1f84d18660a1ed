//! Read-copy-update for user-space Linux programs: readers that cost next to nothing, and updaters
//! that wait until no reader can have the old thing any more.
//!
//! ```
//! use sheaves_rcu::{read, synchronize};
//!
//! {
//!     let _guard = read();
//!     // What is reachable now stays valid until the guard is dropped.
//! }
//! // Unlink something, then wait until nobody can be using it.
//! synchronize()?;
//! # Ok::<(), sheaves_rcu::InsideReader>(())
//! ```
//!
//! | to do | call | blocks |
//! |---|---|---|
//! | read | [`read`] | never |
//! | keep a value that is read often and replaced as a whole | [`RcuCell`], [`RcuOption`] | never |
//! | read across an `.await`, or end elsewhere | [`Srcu`] | never |
//! | wait for readers | [`synchronize`], [`synchronize_expedited`] | yes |
//! | ask whether readers are gone | [`Cookie`] | never |
//! | wait for readers in an `async` function | [`Cookie::finished`] | never |
//! | free or call something once readers are gone | [`mod@defer`], [`fn@defer`] | never |
//!
//! Start reading at `word` (what a reader writes), `reader` (how), `grace` (what a grace period
//! does, and why that suffices), `fences` (which threads it need not interrupt), `generation` (who
//! waits for which), `registry` (threads).
//!
//! Nobody registers and nobody unregisters; no thread runs in the background until a future has to
//! wait, or something is deferred. All memory comes from the system directly, but for the boxes of
//! [`RcuCell`] and of deferred closures.
//!
//! Options, from `SHEAVES_RCU` on, are in the documentation of the crate `sheaves`.
//!
//! Whether readers fence is decided at the first use. Where a seccomp filter refuses membarrier to
//! a thread later, that thread waits until another one leads its grace periods, which is reported.
//! So a program that is about to refuse it to all of its threads needs `SHEAVES_RCU_FENCES=1`, or a
//! filter from the start.
#![no_std]

// For the boxes of [`RcuCell`], which are the program's own; nothing else here allocates.
#[cfg(not(loom))]
extern crate alloc;
#[cfg(all(test, loom))]
extern crate std;

// The protocols that are modelled. A model checker's atomics fit into no static, so that a build
// for it has these files and their models alone.
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
