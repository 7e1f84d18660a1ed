//! Per-CPU transactions and per-CPU memory for user-space Linux programs.
//!
//! A *slot* is one row of per-CPU state; a [`Word`] is one column of it: eight bytes in every slot.
//! A *transaction* changes the word of the slot that the thread runs on, without an atomic
//! instruction and without a lock. It commits by its last store, or has no effect. Two engines
//! provide the same operations ([`pop`], [`push`], [`load`], [`cmp_store`]):
//!
//! - **rseq**: Linux restartable sequences, x86-64. Each transaction is one rseq critical section.
//!   A slot is a CPU (`cpu_id`) or a concurrency id (`mm_cid`, Linux 6.3).
//! - **portable**: atomic exchange of the word, on any architecture. Slots are *virtual*, in any
//!   number.
//!
//! The engine is chosen once, at start: see [`engine::start`] and its options `SHEAVES_ENGINE`,
//! `SHEAVES_SLOT` and `SHEAVES_SLOTS`.
//!
//! A word that is used with [`pop`] and [`push`] holds a *cursor*: the address of the last used
//! entry of a [`sheaf`]. That one word is the whole state, so one [`cmp_store`] replaces a full
//! sheaf by an empty one. Sheaves are named after those of SLUB (Linux 6.18).
#![cfg_attr(not(test), no_std)]

pub mod area;
mod counter;
pub mod dynamic;
pub mod engine;
mod fork;
pub mod memory;
mod percpu;
mod percpu_ref;
mod rows;
pub mod sheaf;
pub mod slots;
mod start;
mod word;

pub use counter::Counter;
pub use engine::{Access, cmp_store, load, pop, push};
pub use percpu::{CellRef, CellValue, Field, PerCpu, PerCpuStatic, SlotCell, Zeroed};
pub use percpu_ref::{KillError, PerCpuRef, ReinitError};
pub use sheaf::{Cursor, Sheaf};
pub use word::{RowWord, Word};
