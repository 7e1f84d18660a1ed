//! Tests of transactions from outside, on the engine that the environment chose.
//!
//! `configurations` runs this whole program again for every other engine and kind of slot, so no
//! test here may assume one. `boundaries` interrupts every rseq critical section at every
//! instruction.

#[cfg(any(target_arch = "aarch64", target_arch = "x86_64"))]
mod boundaries;
mod configurations;
mod dice;
mod drain;
mod fast;
mod fresh;
mod handler_forks;
mod no_sysfs;
mod numbers;
mod one_slot;
mod own_process;
mod seccomp;
mod sheaves;
mod thread_end;
mod vocabulary;

/// The other engines and kinds of slots; each runs all other tests of this program.
#[test]
fn in_every_configuration() {
    configurations::run_all(2, true);
}
