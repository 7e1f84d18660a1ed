//! Per-CPU memory and transactions for user-space Linux programs.
//!
//! - [`PerCpu`], [`PerCpuStatic`]: a value in every slot; [`SlotCell`]: an integer in it that
//!   threads change without an atomic instruction.
//! - [`Counter`] and [`PerCpuRef`]: counters and reference counts for many threads.
//! - [`memory`]: objects of any size in every slot, by handle.
//! - [`Sheaf`] and [`Cursor`]: arrays of free objects, on which the allocators above are built.
//!
//! A *slot* is one row of per-CPU state, and a *word* is one column of it: eight bytes in every
//! slot. A *transaction* changes the word of the slot that the thread runs on, without an atomic
//! instruction and without a lock. It commits by its last store, or has no effect. Two engines
//! provide the same transactions:
//!
//! - **rseq**: Linux restartable sequences, x86-64. Each transaction is one rseq critical section.
//!   A slot is a CPU (`cpu_id`) or a concurrency id (`mm_cid`, Linux 6.3).
//! - **portable**: atomic exchange of the word, on any architecture. Slots are *virtual*, in any
//!   number.
//!
//! The engine is chosen once, when the program is loaded, by the options `SHEAVES_ENGINE`,
//! `SHEAVES_SLOT` and `SHEAVES_SLOTS`.
#![cfg_attr(not(test), no_std)]

#[doc(hidden)]
pub mod area;
mod counter;
#[doc(hidden)]
pub mod dynamic;
#[doc(hidden)]
pub mod engine;
mod fork;
pub mod memory;
mod percpu;
mod percpu_ref;
mod rows;
pub mod sheaf;
#[doc(hidden)]
pub mod slots;
mod start;
mod word;

pub use area::slot_count;
pub use counter::Counter;
pub use engine::Access;
pub use percpu::{CellRef, CellValue, Field, PerCpu, PerCpuStatic, SlotCell, Zeroed};
pub use percpu_ref::{KillError, PerCpuRef, ReinitError};
pub use sheaf::{Cursor, Sheaf};

// For the other crates of this workspace, as the hidden modules are.
#[doc(hidden)]
pub use engine::{cmp_store, load, pop, push};
#[doc(hidden)]
pub use word::{RowWord, Word};
