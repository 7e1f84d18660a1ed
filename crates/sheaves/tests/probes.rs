//! A program that links the crates has their probes, also where the linker leaves out functions
//! that are not called.
#![cfg(target_arch = "x86_64")]

#[path = "../../sheaves-preload/tests/preload/notes.rs"]
mod notes;

use sheaves::Sheaves;

#[global_allocator]
static ALLOCATOR: Sheaves = Sheaves::new();

#[test]
fn this_program_has_the_described_probes() {
    // For the probes of SRCU domains, large blocks and deferred calls.
    sheaves::rcu::Srcu::new().unwrap().synchronize();
    drop(core::hint::black_box(vec![0_u8; 5 << 20]));
    sheaves::rcu::defer::defer(|| ());
    notes::check_described(&std::env::current_exe().unwrap());
}
