//! Calls of the kernel and of libc, by what the crate offers.

mod bits;
mod errno;
mod futex;
mod map;
#[path = "../../../sheaves-percpu/tests/memory/mappings.rs"]
mod mappings;
mod memfd;
mod object;
#[path = "../../../sheaves-percpu/tests/transactions/own_process.rs"]
mod own_process;
mod process;
mod report;
mod sandbox;
mod thread;
