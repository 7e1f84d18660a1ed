//! General malloc on top of object caches.
//!
//! | size | served by |
//! |---|---|
//! | up to 32 KiB | one of 72 size classes, or 6 for wide alignments ([`classes`]): object caches |
//! | up to 1 MiB | one of 15 further classes: object caches, one object per slab from 64 KiB on |
//! | above | a mapping of its own, kept for the next block (`large/idle`), resized by `mremap` |
//!
//! Start reading at [`mod@malloc`], the fast paths.
#![no_std]
#![cfg_attr(miri, expect(dead_code, reason = "only the heap of `miri.rs` is used"))]

mod block;
pub mod classes;
pub mod entry;
pub mod guard;
mod large;
#[cfg_attr(miri, path = "miri.rs")]
pub mod malloc;
pub mod profile;
#[cfg(not(miri))]
mod realloc;
mod redzone;
pub mod report;
mod sandbox;
#[doc(hidden)]
pub mod slow;
mod start;
mod trim;

pub use entry::{free, malloc};
pub use large::hardened::check_freed;
#[cfg(miri)]
pub use malloc::{aligned_alloc, calloc, realloc, usable_size};
pub use malloc::{alloc_layout, dealloc_layout, free_rcu, free_rcu_layout};
#[cfg(not(miri))]
#[doc(hidden)]
pub use realloc::aligned_alloc_from;
#[cfg(not(miri))]
pub use realloc::{aligned_alloc, calloc, realloc, usable_size, usable_size_of};
pub use sandbox::before_sandbox;
pub use sheaves_slab::internal::{checking, leaks};
pub use trim::{on_near_limit, release_to, set_limit, trim};
