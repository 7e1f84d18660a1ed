//! Tests of `src/cpu.rs`.

use super::*;

#[test]
fn the_cpu_is_a_configured_one() {
    for _ in 0..1000 {
        assert!(current_cpu() < slot_count());
    }
}

#[test]
fn the_cpu_agrees_with_glibc() {
    // SAFETY: sched_getcpu has no precondition.
    let agree = || current_cpu() == usize::try_from(unsafe { libc::sched_getcpu() }).unwrap();
    // The thread may migrate between the two reads, but not every time.
    assert!(current_cpu() == 0 || (0..1000).any(|_| agree()));
}
