//! Checks and commands of the Sheaves repository, as a library that tests can call.
//!
//! The command line is in `main.rs`. The project's rules are in [`tidy`]; [`disasm`] makes the page
//! about the fast paths, [`header`] the C headers and manual pages; [`install`] and [`dist`]
//! install and package; [`musl`] builds static programs, [`vm`] runs tests in a machine of their
//! own; [`ci`] lists the steps that every change must pass.

#![forbid(unsafe_code)]
#![expect(
    clippy::std_instead_of_alloc,
    reason = "a program with std; the lint is for no_std crates"
)]

pub mod arch;
pub mod benchmarks;
pub mod ci;
pub mod consumers;
pub mod disasm;
pub mod dist;
pub mod finding;
pub mod header;
pub mod install;
mod median;
pub mod miri;
pub mod musl;
pub mod options;
pub mod planted;
pub mod programs;
pub mod publish;
pub mod repo;
pub mod rooms;
pub mod tidy;
pub mod urcu_cost;
pub mod urcu_examples;
pub mod vm;
