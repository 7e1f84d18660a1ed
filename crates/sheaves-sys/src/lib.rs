//! The only crate of Sheaves that enters the kernel.
//!
//! Everything that the layers above need from the operating system is here, one file per need:
//! address space ([`map`], [`space`]), sleeping locks ([`lock`]) and words ([`mod@futex`]), threads
//! ([`thread`]), fences in other threads ([`membarrier`]), restartable-sequence registration
//! ([`rseq`]), processors ([`topology`]), the fork registry ([`fork`]), options ([`mod@env`]),
//! time ([`clock`]), and the lines that go to standard error ([`mod@report`]). All of it works
//! below `malloc`: nothing here allocates (but [`thread::spawn`], in libc), unwinds, reads
//! `std::env` or keeps a thread-local with a destructor.
//!
//! Blocking: only [`lock::Lock::lock`], [`mod@futex`] and [`thread::sleep_ns`] may sleep. Signals:
//! nothing here is meant to be called from a signal handler except [`mod@report`], [`errno`], and
//! what says so itself. Fork: see [`fork`].
#![no_std]

pub mod atomic;
pub mod clock;
pub mod env;
pub mod errno;
pub mod fork;
pub mod futex;
pub mod lock;
pub mod map;
pub mod membarrier;
pub mod process;
pub mod report;
pub mod rseq;
pub mod space;
pub mod thread;
pub mod tls;
pub mod topology;
