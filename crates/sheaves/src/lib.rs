#![doc = include_str!("../README.md")]
#![no_std]

// For `handle_alloc_error` of a map without memory, and the lists of `map::IntoIter` and of what is
// written with serde; nothing else here allocates through it.
extern crate alloc;

mod global;
pub mod guide;
pub mod map;
pub mod rcu;
mod rcu_box;

// Answers tools: it is there once it is linked.
use sheaves_control as _;

pub use global::{ProfiledSheaves, Sheaves};
pub use sheaves_heap as heap;
pub use sheaves_heap::{release_to, trim};
pub use sheaves_rcu::defer::reclaim;
pub use sheaves_slab::{Cache, CacheBox, raw};

/// Per-CPU values, counters, reference counts and memory.
pub mod percpu {
    pub use sheaves_percpu::{
        Access, CellRef, CellValue, Counter, Field, KillError, PerCpu, PerCpuRef, PerCpuStatic,
        ReinitError, SlotCell, Zeroed, field, memory, slot_count,
    };
}
pub use sheaves_percpu::{Counter, PerCpu, PerCpuRef, PerCpuStatic, SlotCell, Zeroed, field};
