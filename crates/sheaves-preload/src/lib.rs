//! The shared object that takes over malloc under `LD_PRELOAD`.
//!
//! Every symbol of the malloc family, C and C++, is defined here, so that none of libc's own
//! blocks ever meets this heap; and `dlopen`, so that objects which ask for libc's before ours do
//! not get it. What `dlmopen` loads has a libc of its own and is not covered. Start reading at
//! [`c`]; `sheaves run` sets the preload up.
//!
//! Options are in `docs/options.md`.
//!
//! The object is linked `-z nodelete`: it stays until the process ends.
#![no_std]
// The standard library is linked for its panic handler alone; nothing of it is called.
extern crate std as _;

pub mod atfork;
pub mod c;
pub mod cxx;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod dl;
pub mod info;
mod life;
