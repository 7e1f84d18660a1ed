//! Calls of the kernel and of libc, by what the crate offers.

mod bits;
mod errno;
mod futex;
mod map;
mod memfd;
mod object;
mod process;
mod report;
mod sandbox;
mod thread;
