//! What the operations cost by number of slots: executed instructions and system calls, neither of
//! which depends on the machine's speed.
//!
//! Each row of the table is a process of its own, which executes its operations step by step under
//! this one's control. `SHEAVES_TEST_COSTS_SLOTS` limits the number of slots; the rseq engine has
//! as many as there are CPUs.
//!
//! What is asserted, for 1 to 64 slots:
//! - allocations, frees and additions to a counter execute as many instructions with each number;
//! - no operation makes more system calls with more slots;
//! - a seal, a drain and a grace period execute at most linearly more instructions with the slots
//!   in use, and none for those that are possible only. A refill takes less at once the more slots
//!   are possible, down to a least number.

#[cfg(target_arch = "x86_64")]
#[expect(unused, reason = "shared with the boundary tests, which use all of it")]
#[path = "../../../sheaves-percpu/tests/transactions/boundaries/machine_x86_64.rs"]
mod machine;
#[cfg(target_arch = "x86_64")]
mod program;
#[cfg(target_arch = "x86_64")]
#[expect(dead_code, reason = "shared with the boundary tests, which use all of it")]
#[path = "../../../sheaves-percpu/tests/transactions/boundaries/sections.rs"]
mod sections;
#[cfg(target_arch = "x86_64")]
mod table;
#[cfg(target_arch = "x86_64")]
#[path = "../../../sheaves-percpu/tests/transactions/boundaries/traced.rs"]
mod traced;
#[cfg(target_arch = "x86_64")]
mod tracee;

/// Single steps end the exclusive accesses of other architectures, which would never succeed.
#[cfg(not(target_arch = "x86_64"))]
fn main() {
    println!("costs: not counted on this architecture");
}

#[cfg(target_arch = "x86_64")]
fn main() -> std::process::ExitCode {
    if let Some(shape) = program::Shape::of_environment() {
        program::run(shape);
        return std::process::ExitCode::SUCCESS;
    }
    table::run()
}
