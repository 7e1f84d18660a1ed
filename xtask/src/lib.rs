//! Checks and chores of the Sheaves repository, as a library so that tests can call them.
//!
//! The command line is in `main.rs`. A rule of the house lives in [`tidy`]; the page about the fast
//! paths is made by [`disasm`], the C headers and manual pages by [`header`];
//! [`install`] and [`dist`] make of the repository what people use; [`ci`] is the list of steps
//! that every change must pass.

#![forbid(unsafe_code)]
#![expect(
    clippy::std_instead_of_alloc,
    reason = "a program with std; the lint is for no_std crates"
)]

pub mod ci;
pub mod consumers;
pub mod disasm;
pub mod dist;
pub mod finding;
pub mod header;
pub mod install;
pub mod miri;
pub mod options;
pub mod read_cost;
pub mod repo;
pub mod tidy;
pub mod urcu_examples;
