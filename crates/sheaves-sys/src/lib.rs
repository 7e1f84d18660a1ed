//! The only crate of Sheaves that enters the kernel.
//!
//! Everything that the layers above need from the operating system is here, one file per need:
//! address space ([`map`], [`space`]), sleeping locks ([`lock`]), futexes ([`mod@futex`]), threads
//! ([`thread`]), memory barriers in other threads ([`membarrier`]), registration of restartable
//! sequences ([`rseq`]), CPUs ([`topology`]), the fork registry ([`fork`]), [`options`], sandboxes
//! ([`sandbox`]), time ([`clock`]), messages on standard error ([`mod@report`]), the calling
//! thread's stack ([`stack`]), where another thread sleeps ([`sleeper`]), the object that this code
//! is in ([`object`]), accesses that fail ([`fault`]), stacks in reports ([`trace`]), probes for
//! tracers ([`probe`]), memory that is shared with tools ([`memfd`]) and their requests
//! ([`request`]).
//!
//! The crate works below `malloc`: it does not allocate, unwind, read `std::env` or keep a
//! thread-local with a destructor. The one exception is [`thread::spawn`], for which libc
//! allocates.
//!
//! Blocking: only [`lock::Lock::lock`], [`mod@futex`], [`request::sleep`] and
//! [`thread::sleep_ns`] may sleep. Signals:
//! only [`mod@report`], [`errno`] and functions documented as async-signal-safe may be called from
//! a signal handler. Fork: see [`fork`].
#![no_std]

pub mod cgroup;
pub mod clock;
pub mod errno;
pub mod fault;
pub mod fork;
pub mod futex;
mod generation;
mod key;
pub mod lock;
mod lock_word;
pub mod map;
pub mod membarrier;
pub mod memfd;
mod memory;
pub mod object;
pub mod options;
pub mod probe;
pub mod process;
pub mod report;
pub mod request;
pub mod rseq;
pub mod sandbox;
pub mod sleeper;
pub mod space;
pub mod stack;
pub mod symbol;
pub mod thread;
pub mod tls;
pub mod topology;
pub mod trace;
