//! Runs the tests of a program again in every configuration of the layers below. Each is a process
//! of its own, since options are read once, and compares what was asked for with what is in effect.

use std::env;
use std::process::{Command, Stdio};

/// Options, and words of [`in_effect`].
const CONFIGURATIONS: [(&[(&str, &str)], &str); 6] = [
    (&[("SHEAVES_ENGINE", "rseq")], "rseq cid"),
    (&[("SHEAVES_ENGINE", "rseq-cpu")], "rseq cpu"),
    (&[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "2")], "portable virtual slots=2"),
    (&[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")], "portable virtual slots=64"),
    (&[("SHEAVES_RCU_FENCES", "1")], "fences"),
    (&[("SHEAVES_DEBUG", "1")], "debug"),
];

/// Set in the processes that [`run_all`] starts, to what has to be in effect.
const EXPECT: &str = "SHEAVES_EXPECT";

/// True in a process that [`run_all`] has started.
pub(crate) fn is_child() -> bool {
    env::var_os(EXPECT).is_some()
}

fn in_effect() -> String {
    // Options take effect at the first use.
    // SAFETY: from this heap, and not used.
    unsafe { sheaves::heap::free(sheaves::heap::malloc(1)) };
    let ((engine, slot), slots) =
        (sheaves::heap::report::engine_names(), sheaves_percpu::slot_count());
    let fences = if sheaves_rcu::statistics().readers_fence { " fences" } else { "" };
    let debug = if sheaves_slab::internal::checking::is_debug() { " debug" } else { "" };
    format!("{engine} {slot} slots={slots}{fences}{debug}")
}

fn check(expected: &str) {
    let found = in_effect();
    if expected.contains("cid") && !has_concurrency_ids() {
        return println!("skipped: the kernel has no concurrency ids");
    }
    for word in expected.split_whitespace() {
        assert!(found.split(' ').any(|other| other == word), "not {word}: {found}");
    }
}

fn has_concurrency_ids() -> bool {
    sheaves_sys::rseq::feature_bytes() >= sheaves_sys::rseq::MM_CID_OFFSET + 4
}

/// Runs all tests of this program in every configuration; in one of them compares that.
pub(crate) fn run_all() {
    if is_child() {
        return check(&env::var(EXPECT).unwrap());
    }
    // All at once: they wait more than they compute.
    let children = CONFIGURATIONS.map(|(variables, expect)| {
        let mut command = Command::new(env::current_exe().unwrap());
        for (name, _) in CONFIGURATIONS.iter().flat_map(|(variables, _)| *variables) {
            command.env_remove(name);
        }
        command.env(EXPECT, expect).envs(variables.iter().copied());
        (variables, command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    });
    for (variables, child) in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{variables:?}: {}\n{text}\n{errors}", output.status);
    }
}
