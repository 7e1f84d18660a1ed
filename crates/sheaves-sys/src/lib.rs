//! The only crate of Sheaves that enters the kernel.
//!
//! Everything that the layers above need from the operating system is here, one file per need. The
//! folders [`fork`], [`lock`], [`options`], [`thread`] and [`tls`] are modules of that name;
//! `memory` has address space, and `reports` what is said on standard error and to tracers.
//!
//! The crate works below `malloc`: it does not allocate, unwind, read `std::env` or keep a
//! thread-local with a destructor. The one exception is [`thread::spawn`], for which libc
//! allocates.
//!
//! What the load of an object touches is in its section `.sheaves_load`, in all crates: scattered
//! over `.data` and `.bss`, such statics cost each start of a program a dozen page faults more. The
//! functions that it calls are in `.text.sheaves_load`, likewise.
//!
//! Blocking: only [`lock::Lock::lock`], [`mod@futex`], [`request::sleep`] and
//! [`thread::sleep_ns`] may sleep. Signals:
//! only [`mod@report`], [`errno`] and functions documented as async-signal-safe may be called from
//! a signal handler. Fork: see [`fork`].
//!
//! Under Miri the process seems to be in a [`sandbox`], and what Miri does not know fails, or is
//! done in another way.
#![no_std]

pub mod cgroup;
pub mod clock;
pub mod errno;
pub mod fork;
pub mod function;
pub mod futex;
pub mod lock;
pub mod membarrier;
mod memory;
#[cfg(miri)]
pub mod miri;
pub mod object;
pub mod options;
pub mod process;
mod reports;
pub mod request;
pub mod rseq;
pub mod sandbox;
pub mod thread;
pub mod tls;
pub mod topology;

pub use memory::{map, memfd, space};
pub use reports::{fault, probe, report, sleeper, stack, symbol, trace, tsan, unwind};
