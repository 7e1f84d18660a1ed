//! The shared object that takes over malloc under `LD_PRELOAD`.
//!
//! Every symbol of the malloc family, C and C++, is defined here, so that none of libc's own
//! blocks ever meets this heap; and `dlopen`, so that objects which ask for libc's before ours do
//! not get it. What `dlmopen` loads has a libc of its own and is not covered. Start reading at
//! [`c`]; `sheaves run` sets the preload up.
//!
//! | option | effect |
//! |---|---|
//! | `SHEAVES_STATS=1` or `json` | statistics at exit, of the process that was started |
//! | `SHEAVES_STATS_FILE=PATH` | there instead of on standard error, appended |
//! | `SHEAVES_SMALL_PAGES=1` | no huge pages for a heap above 16 MiB |
//! | `SHEAVES_DEBUG=1` | red zones, poison, every double free |
//! | `SHEAVES_DEEPBIND=1` | `dlopen` leaves `RTLD_DEEPBIND` alone |
//! | `SHEAVES_HELLO_FD=N` | one line to descriptor N at start: how `sheaves run` knows |
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
