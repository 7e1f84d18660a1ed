//! How fast Sheaves is, beside everything else: tables of workloads and contenders, measured in
//! turn.
//!
//! ```text
//! sheaves-bench TABLE [--quick] [--threads N] [--json FILE] [--sizes 64,1024] [--contenders a,b]
//!               [--html FILE] [--plot FILE]
//! sheaves-bench --from FILE [--html FILE]
//! ```
//!
//! `TABLE` may be a part of one: `batch`, `batch/shuffled` or `batch/shuffled/64`; `--help` lists
//! the tables. With `--quick` and no table the program shows Sheaves beside glibc's malloc, and the
//! result of 2011 before and after, in about a minute. `--html` writes one page with plots, figures
//! and the report, which needs no network; `--from` shows a report that `--json` wrote before.
//!
//! # How it measures
//!
//! - All contenders of a case are ready at the same time, in one process, and take turns sample
//!   by sample, in a new random order each round. A machine that slows down for a second slows
//!   all of them down.
//! - A sample is a batch of operations of at least 50 microseconds, timed as a whole; before the
//!   clock starts, the contender does a little of the same work to have its own memory back in the
//!   caches. Some rounds are run and forgotten first.
//! - Printed are the median, and as low and high the 10th and 90th percentile, in nanoseconds per
//!   operation. Ratios are taken round by round; then their median is printed.
//! - A bar is held against the ratio of medians, ours to the best peer of the same row.
//! - The process has a second thread from the start, because glibc leaves its locks out otherwise.
//!
//! # Where things are
//!
//! `harness` measures, compares and reports, and knows no table. `tables` has a folder for each
//! table, whose head says what its rows and contenders are. `contenders` has what several tables
//! share: the allocators, liburcu. The feature `peers` adds the other allocators and liburcu; it
//! needs a C++ compiler, cmake and `liburcu-dev`. The feature `peers-hardened` adds hardened builds
//! of two allocators to the table `hardened`.
//!
//! # The JSON file
//!
//! ```text
//! {schema, table, machine: {cpu, cpus, kernel, glibc, thp, commit},
//!  rows: [{workload, contender, unit, samples, median, low, high,
//!          shown: {heading, column, size, size_unit, divisor}, work, is_mode, is_ours}],
//!  ratios: [{workload, of, to, median, low, high}],
//!  bars: [{workload, contender, versus, ratio, at_most, verdict}],
//!  left_out: [{contender, reason, workloads}]}
//! ```
//!
//! `workload` is the name of a row. `unit` is `ns/op` for nanoseconds per operation, or another
//! one; a figure in `bytes to glibc` is a ratio. A contender that runs in two modes has a row for
//! each, with the mode behind `@` and `is_mode`, and one under its common name for the better one.
//! `is_ours` marks Sheaves. `shown` says where the text has the row.
//! `work` and `left_out` are there where there is something to tell; `work` has what the contender
//! counts, or with `--plot` or `--html` its resident memory, as pairs of seconds and bytes.
//! `versus` is another contender, or what a figure is held against: `1 chunk tested`,
//! `ideal memory` or `1 ns`; `ratio` is then the figure itself. With `glibc + 8 MiB` it is the
//! ratio to that sum. `best peer` is that of each row, in a mean over rows.

extern crate alloc;

pub mod cli;
mod contenders;
mod demonstration;
mod harness;
mod plan;
mod tables;
