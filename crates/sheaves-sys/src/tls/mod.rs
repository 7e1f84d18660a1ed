//! Thread-local words of the fast paths, reached by one instruction.
//!
//! Stable Rust compiles `thread_local!` in a shared object to a call. So `area.rs` declares an area
//! in assembly, with the initial-exec model: its address is the thread pointer plus a constant that
//! the loader computes. The symbol is protected: an object may export it to programs in C, and yet
//! each that contains this crate has its own.
//!
//! Other architectures have no area, see `portable.rs`; there the reader's word is the value of a
//! `pthread_key`. With `--cfg sheaves_keys`, for tests, it is that everywhere. Under Miri the area
//! is a `thread_local!`.

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod area;
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
#[path = "portable.rs"]
mod area;
#[cfg(any(not(any(target_arch = "aarch64", target_arch = "x86_64")), sheaves_keys))]
mod keys;
mod layout;
mod symbols;

pub use area::*;
#[cfg(any(not(any(target_arch = "aarch64", target_arch = "x86_64")), sheaves_keys))]
pub use keys::{can_have_reader, exchange_reader, reader};
pub use layout::{NO_SLOT_OFFSET, RseqArea, ThreadArea};
pub use symbols::*;
