//! Per-CPU memory and transactions for user-space Linux programs.
//!
//! - [`PerCpu`], [`PerCpuStatic`]: a value in every slot. [`SlotCell`]: an integer in such a value,
//!   changed by transactions.
//! - [`Counter`] and [`PerCpuRef`]: counters and reference counts for many threads.
//! - [`memory`]: objects of up to 32 KiB in every slot; a handle names the object in all slots.
//!
//! Per-CPU state is a table. A *slot* is one row of it. A *word* is one column: eight bytes at the
//! same offset in every slot. A *transaction* changes a word in the slot that the thread runs on,
//! without a lock. It commits by its last store, or has no effect. There are two engines:
//!
//! - **rseq**: Linux restartable sequences, x86-64 and aarch64. Each transaction is a critical
//!   section without atomics. A slot is a CPU (`cpu_id`) or a concurrency id (`mm_cid`, Linux 6.3).
//! - **portable**: atomic exchange of the word, on any architecture. Slots are *virtual*: any
//!   number of them, to which threads are assigned.
//!
//! The engine is chosen when the program is loaded, by the environment variables `SHEAVES_ENGINE`
//! and `SHEAVES_SLOTS`.
#![cfg_attr(not(test), no_std)]

mod counter;
mod dynamic;
mod engine;
mod fork;
pub mod memory;
mod percpu;
mod percpu_ref;
mod rows;
mod sheaf;
mod slots;
mod start;
mod table;
mod word;

pub use counter::Counter;
pub use engine::Access;
pub use percpu::{CellRef, CellValue, Field, PerCpu, PerCpuStatic, SlotCell, Zeroed};
pub use percpu_ref::{KillError, PerCpuRef, ReinitError};
pub use rows::slot_count;

/// For the other crates of this workspace, their tests and benchmarks. It may change at any time.
#[doc(hidden)]
pub mod internal {
    pub use crate::engine::{
        EngineMode, Facts, SlotKind, cmp_store, current_slot, facts, load, mode, pop, pop_slow,
        pop_source, push, push_slow, rows,
    };
    pub use crate::memory::objects::{Observer, observe as observe_objects};
    pub use crate::sheaf::{Cursor, Sheaf, Taken};
    pub use crate::start::try_start;
    pub use crate::table::{ENTRY_0, IN_PAGE, InPage, TABLE, TABLE_MARK, Table};
    pub use crate::word::{BLOCK_BYTES, Region, RowWord, Word};
    pub use sheaves_sys::stack::Frame;

    /// The allocator of per-CPU memory.
    pub mod dynamic {
        #[cfg(any(test, feature = "counters"))]
        pub use crate::dynamic::Counters;
        pub use crate::dynamic::{Allocator, Backing, Config, PAGE_BYTES, bits};
    }
    /// Blocks of slots, and what is in them.
    pub mod slots {
        pub use crate::slots::{
            ALL, attach, drain, observe, prepare, set_source, slots_used, take, take_in_child,
        };
    }
}
