#![doc = include_str!("../README.md")]
#![no_std]

mod global;

pub use global::Sheaves;
pub use sheaves_heap as heap;
pub use sheaves_slab::{Cache, CacheBox, raw, trim};

/// Per-CPU transactions and areas, for code that builds on them directly.
pub use sheaves_percpu as percpu;
