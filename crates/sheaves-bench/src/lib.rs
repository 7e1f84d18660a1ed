//! Workloads, contenders and measurement: how fast Sheaves is, beside everything else.
//!
//! ```text
//! sheaves-bench TABLE [--quick] [--threads N] [--json FILE] [--sizes 64,1024] [--contenders a,b]
//! ```
//!
//! `TABLE` may be a part of one: `batch`, `batch/shuffled` or `batch/shuffled/64`. With `--quick`
//! and no table the program shows the result of 2011 (below), before and after, in under a minute.
//!
//! # How it measures
//!
//! - All contenders of a workload are ready at the same time, in one process, and take turns sample
//!   by sample, in a new random order each round. A machine that slows down for a second slows
//!   everybody down.
//! - A sample is a batch of operations of at least 50 microseconds, timed as a whole; before the
//!   clock starts, the contender does a little of the same work to have its own memory back in the
//!   caches. Some rounds are run and forgotten first.
//! - Printed are the median, and as low and high the 10th and 90th percentile, in nanoseconds per
//!   operation. Ratios are taken round by round; then their median is printed.
//! - A bar is held against the ratio of medians, ours to the best peer of the same row.
//! - The process has a second thread from the start, because glibc leaves its locks out otherwise.
//!
//! # Tables
//!
//! | table | what | variants |
//! |---|---|---|
//! | `pair` | allocate, write a byte, free at once | |
//! | `batch` | allocate 10,000, write a byte each, free all | `inorder`, `reverse`, `shuffled` |
//! | `slabtest` | the six parts of the kernel's slab_test, step by step | `1` to `6` |
//! | `remote` | allocate here, free on another thread | `1to1`, `1to1-read`, `1toN`, `Nto1` |
//! | `replace` | replace a random one of 5,000 objects of 16 to 1016 bytes | `1t` to `Nt` threads |
//!
//! A row is called `TABLE/VARIANT/SIZE`: `pair/64`, `batch/shuffled/64`, `remote/1to1/64`,
//! `replace/2t`. Parts that are timed on their own have rows of their own: `batch-alloc/inorder/64`
//! and `batch-free/inorder/64`, `slabtest/1-alloc/64` and `slabtest/1-free/64`. The rows
//! `slabtest/5-printed` and `6-printed` are the averages as the original computes them, which
//! divides by more operations than were done; the others are per operation.
//!
//! # Contenders
//!
//! | name | what | compared with |
//! |---|---|---|
//! | `cache` | a named cache of Sheaves, inlined (`replace`: one per 16 bytes) | every peer |
//! | `sized` | Sheaves as `GlobalAlloc`: size on both sides, inlined | sized forms |
//! | `malloc` | Sheaves as two C functions; free finds the size itself | unsized forms |
//! | `locked` | the same slab, a lock and an array of objects for each CPU | |
//! | `tid` | the same slab, a linked list and a transaction number for each CPU | |
//! | `floor` | `remote` without an allocator: the queue alone | |
//! | `glibc` | the C library's malloc, checked to be just that | |
//!
//! `locked` is the "before" of the change that made Linux's allocator fast in 2011 by leaving
//! disabled interrupts and locks out of the common path, and `tid` is what it did instead.
//!
//! With the feature `peers`, which needs a C++ compiler and cmake:
//!
//! | name | what | sized form |
//! |---|---|---|
//! | `mimalloc` | version 3 | `mimalloc-sized`: `mi_free_size` |
//! | `jemalloc` | version 5.3 | `jemalloc-sized`: `mallocx`, `sdallocx` |
//! | `snmalloc` | version 0.7 | `snmalloc-sized`: size and alignment on both sides |
//! | `rpmalloc` | version 1.4, the newest that the registry has as source | none |
//! | `tcmalloc` | Google's | `tcmalloc-sized`: `operator new`, sized `operator delete` |
//!
//! tcmalloc runs in two child processes, with per-CPU and with per-thread caches; the better one
//! counts. Both have a row in the JSON file, as `tcmalloc@percpu` and `tcmalloc@perthread`.
//!
//! snmalloc's build turns to a debug build, thirty times slower, when the profile asks for debug
//! information: keep `debug = false` in the profile that measures.
//!
//! # The JSON file
//!
//! ```text
//! {schema, table, machine: {cpu, cpus, kernel, glibc, thp, commit},
//!  rows: [{workload, contender, unit, samples, median, low, high}],
//!  ratios: [{workload, of, to, median, low, high}],
//!  bars: [{workload, contender, versus, ratio, at_most, verdict}]}
//! ```

extern crate alloc;

mod child;
pub mod cli;
mod contender;
mod failure;
mod measure;
mod report;
mod stats;
mod workload;
