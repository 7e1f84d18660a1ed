//! General malloc on top of object caches.
//!
//! | size | served by |
//! |---|---|
//! | up to 32 KiB | one of 72 size classes, or 6 for wide alignments ([`classes`]): object caches |
//! | up to 1 MiB | a run of 64 KiB granules out of the heap's chunks |
//! | above | a mapping of its own, resized by `mremap` |
//!
//! Start reading at [`mod@malloc`], the fast paths. [`report`] prints statistics. The red zones of
//! `SHEAVES_DEBUG=1` are in `redzone`.
#![no_std]

pub mod classes;
mod deferred;
pub mod entry;
mod huge;
mod large;
pub mod malloc;
mod realloc;
mod redzone;
pub mod report;
#[doc(hidden)]
pub mod slow;
mod start;

pub use entry::{free, malloc};
pub use malloc::{alloc_layout, dealloc_layout, free_rcu, free_rcu_layout};
pub use realloc::{aligned_alloc, calloc, realloc, trim, usable_size};
