//! The first use of the heap is in a sandbox that kills for any system call but those of a malloc.
//!
//! One test, in processes of its own, because a program starts its heap once.

use std::process::Command;

use sheaves_heap::{before_sandbox, free, malloc};

#[path = "../../sheaves-percpu/tests/transactions/seccomp.rs"]
mod seccomp;

/// Set in the processes that the test starts.
const CASE: &str = "SHEAVES_CASE";
/// The status of such a process; that of one which may have no filter.
const HAS_USED: i32 = 76;
const NOT_PERMITTED: i32 = 77;

/// What the heap does when it starts, and what keys, limit and handler are asked of the kernel for.
const MODES: [(&str, &str); 6] = [
    ("SHEAVES_HARDEN", "0"),
    ("SHEAVES_HARDEN", "1"),
    ("SHEAVES_HARDEN", "2"),
    ("SHEAVES_DEBUG", "1"),
    ("SHEAVES_LIMIT", "50%"),
    ("SHEAVES_GUARD", "1/1"),
];
const ENGINES: [(&str, &str); 2] = [("SHEAVES_ENGINE", "auto"), ("SHEAVES_ENGINE", "portable")];
const SLOTS: (&str, &str) = ("SHEAVES_SLOTS", "64");

#[test]
fn a_heap_that_starts_in_a_sandbox_makes_the_calls_of_a_malloc_only() {
    if std::env::var_os(CASE).is_some() {
        use_in_sandbox();
    }
    for (mode, engine) in MODES.iter().flat_map(|mode| ENGINES.map(|engine| (mode, engine))) {
        let output = Command::new(std::env::current_exe().unwrap())
            .arg("--nocapture")
            .envs([(CASE, "1"), *mode, engine, SLOTS])
            .output()
            .unwrap();
        match output.status.code() {
            Some(HAS_USED) => {}
            Some(NOT_PERMITTED) => println!("skipped: filters are not permitted here"),
            _ => panic!("{mode:?}, {engine:?}: {output:?}"),
        }
    }
}

fn use_in_sandbox() -> ! {
    let calls = [
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_futex,
        libc::SYS_exit_group,
    ];
    let mut filter = seccomp::program(&calls, 0);
    for line in &mut filter {
        line.k = match line.k {
            libc::SECCOMP_RET_ERRNO => libc::SECCOMP_RET_ALLOW,
            libc::SECCOMP_RET_ALLOW => libc::SECCOMP_RET_KILL_PROCESS,
            other => other,
        };
    }
    before_sandbox();
    let is_permitted = seccomp::install(&filter).is_ok();
    for bytes in (0..3000).chain([100_000, 3 << 20]) {
        let block = malloc(bytes);
        assert!(!block.is_null());
        // SAFETY: from this heap, and not used after.
        unsafe { free(block) };
    }
    // SAFETY: no precondition.
    unsafe { libc::_exit(if is_permitted { HAS_USED } else { NOT_PERMITTED }) }
}
