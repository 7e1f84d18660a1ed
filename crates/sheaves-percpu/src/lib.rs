//! Per-CPU transactions and areas for user-space Linux programs.
//!
//! A *slot* is one row of per-CPU state; a [`Word`] is one column of it: eight bytes in every
//! slot. A *transaction* changes the word of the slot on which the thread runs, with no atomic
//! instruction and no lock, and either commits by its last store or has not happened. Two engines
//! do this behind one vocabulary ([`pop`], [`push`], [`load`], [`cmp_store`]):
//!
//! - **rseq**: Linux restartable sequences, x86-64. A slot is a concurrency id (`mm_cid`, Linux
//!   6.3) or a processor.
//! - **portable**: atomic exchange of the word, any number of *virtual* slots, everywhere.
//!
//! The engine is chosen once, at start: see [`engine::start`] and the `SHEAVES_ENGINE`,
//! `SHEAVES_SLOT` and `SHEAVES_SLOTS` options there.
//!
//! A word that is used with [`pop`] and [`push`] holds a *cursor*: the address of the last used
//! entry of a [`sheaf`]. Since that one word is the whole state, exchanging a full sheaf for an
//! empty one is one [`cmp_store`].
#![cfg_attr(not(test), no_std)]

pub mod area;
mod counter;
pub mod dynamic;
pub mod engine;
mod fork;
pub mod memory;
mod percpu;
mod percpu_ref;
pub mod sheaf;
pub mod slots;

pub use area::Word;
pub use counter::Counter;
pub use engine::{Access, cmp_store, load, pop, push};
pub use percpu::{CellRef, CellValue, Field, PerCpu, PerCpuStatic, SlotCell, Zeroed};
pub use percpu_ref::{KillError, PerCpuRef, ReinitError};
