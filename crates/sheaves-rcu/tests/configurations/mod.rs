//! Runs the tests of a program again: on each engine, with membarrier and without.
//!
//! Each configuration starts the same executable again, because options and a seccomp filter take
//! effect before `main`. A test in it compares the requested configuration with the one in effect,
//! so that a silent fallback is a failure. Shared by several test programs.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};

use sheaves_percpu::internal::{EngineMode, SlotKind, facts};
use sheaves_sys::rseq;

#[path = "../../../sheaves-percpu/tests/transactions/seccomp.rs"]
pub(crate) mod seccomp;
#[path = "../../../sheaves-percpu/tests/transactions/several_at_a_time.rs"]
mod several_at_a_time;

/// What must be in effect in the child: engine and readers.
const EXPECT: &str = "SHEAVES_EXPECT";
/// The name of the test that runs in its own process.
const OWN: &str = "SHEAVES_TEST_OWN";
/// A child that hangs is killed after this time.
const ALARM_SECONDS: u32 = 300;

/// One configuration.
#[derive(Clone)]
pub(crate) struct Configuration {
    pub(crate) name: String,
    pub(crate) variables: Vec<(&'static str, &'static str)>,
    pub(crate) is_refused: bool,
    expect: String,
}

/// Each engine with each way to order readers.
pub(crate) fn all() -> Vec<Configuration> {
    // Name, options, and the engine in effect without membarrier: there is a slot per CPU then.
    let engines = [
        ("rseq cid", vec![("SHEAVES_ENGINE", "rseq")], "rseq cpu"),
        ("rseq cpu", vec![("SHEAVES_ENGINE", "rseq-cpu")], "rseq cpu"),
        ("portable", vec![("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")], "portable"),
    ];
    let mut found = Vec::new();
    for (engine, variables, without_membarrier) in engines {
        for readers in ["membarrier", "fences", "refused"] {
            let is_refused = readers == "refused";
            let runs = if is_refused { without_membarrier } else { engine };
            let mut variables = variables.clone();
            if readers == "fences" {
                variables.push(("SHEAVES_RCU_FENCES", "1"));
            }
            let order = if readers == "membarrier" { "membarrier" } else { "fences" };
            let expect = format!("{runs}, {order}");
            let name = format!("{engine}, {readers}");
            found.push(Configuration { name, variables, is_refused, expect });
        }
    }
    found
}

/// What is in effect here, in the format of an expectation.
fn describe() -> String {
    let facts = facts();
    let engine = match (facts.mode, facts.slot_kind) {
        (EngineMode::Portable, _) => "portable",
        (_, SlotKind::CpuId) => "rseq cpu",
        _ => "rseq cid",
    };
    let order = if sheaves_rcu::statistics().readers_fence { "fences" } else { "membarrier" };
    format!("{engine}, {order}")
}

#[test]
fn what_was_asked_for_is_in_effect() {
    // The engine is chosen at the first use of per-CPU memory.
    let _domain = sheaves_rcu::Srcu::new().unwrap();
    let expected = env::var(EXPECT).unwrap_or_default();
    let has_ids = rseq::feature_bytes() >= rseq::MM_CID_OFFSET + 4;
    if expected.starts_with("rseq cid") && !has_ids {
        println!("skipped: the kernel has no concurrency ids");
    } else if !expected.is_empty() {
        assert_eq!(describe(), expected);
    }
}

/// True in the processes of [`run_all`], which do the same in many configurations.
pub(crate) fn is_one_of_many() -> bool {
    env::var_os(EXPECT).is_some()
}

/// A command in a configuration, without the caller's options.
pub(crate) fn configure(command: &mut Command, configuration: &Configuration) {
    let options = ["SHEAVES_ENGINE", "SHEAVES_SLOTS", "SHEAVES_RCU_FENCES"];
    for name in options.iter().chain(&["SHEAVES_RCU"]) {
        command.env_remove(name);
    }
    command.envs(configuration.variables.iter().copied()).env(EXPECT, &configuration.expect);
    filter(command, configuration.is_refused);
}

/// Kills the command's process if it hangs, and refuses membarrier to it if requested.
fn filter(command: &mut Command, is_refused: bool) {
    let program = seccomp::program(&[libc::SYS_membarrier], libc::EPERM);
    let prepare = move || {
        end_if_it_hangs();
        if is_refused { seccomp::install(&program) } else { Ok(()) }
    };
    // SAFETY: the closure only makes system calls and only touches its own memory.
    unsafe { command.pre_exec(prepare) };
}

/// Kills the process after a while, even if the caller's parent ignores or blocks the signal.
/// Outlives exec.
fn end_if_it_hangs() {
    // SAFETY: an all-zero set is valid to be filled.
    let mut set: libc::sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: the set is valid for writes.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: as above.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGALRM) };
    // SAFETY: the set is valid, and the old mask is not requested.
    unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, core::ptr::null_mut()) };
    // SAFETY: integers only.
    unsafe { libc::signal(libc::SIGALRM, libc::SIG_DFL) };
    // SAFETY: integers only.
    unsafe { libc::alarm(ALARM_SECONDS) };
}

/// Whether a command that has ended has passed `tests` tests or more; what it has printed, if not.
/// `None` if filters are not permitted.
pub(crate) fn finish(name: &str, output: std::io::Result<Output>, tests: usize) -> Option<bool> {
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            println!("skipped: {name}: filters are not permitted here: {error}");
            return None;
        }
        Err(error) => panic!("{name}: {error}"),
    };
    let text = String::from_utf8_lossy(&output.stdout);
    // With a name that is not a test's, no test would run, and that would pass as well.
    let result =
        text.rsplit_once("test result: ok. ").and_then(|(_, end)| end.split_once(" passed"));
    let passed = result.map_or(0, |(count, _)| count.parse().unwrap());
    println!("{name}: {}, {passed} passed", output.status);
    let has_passed = output.status.success() && passed >= tests;
    if !has_passed {
        println!("{text}");
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Some(has_passed)
}

/// Runs all other tests of this executable in every configuration; panics if one fails.
pub(crate) fn run_all() {
    let failed = several_at_a_time::failed(2, all(), |configuration| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--skip", "in_every_configuration"]);
        configure(&mut command, &configuration);
        match finish(&configuration.name, command.output(), 2) {
            Some(false) => Err(configuration.name),
            _ => Ok(()),
        }
    });
    assert!(failed.is_empty(), "failed: {failed:?}");
}

/// Runs the test of that name again in its own process, in the same configuration. False in that
/// process: there the test goes on.
pub(crate) fn in_own_process(name: &str) -> bool {
    if env::var(OWN).is_ok_and(|own| own == name) {
        return false;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(OWN, name);
    filter(&mut command, false);
    assert_eq!(finish(name, command.output(), 1), Some(true), "{name} failed in its own process");
    true
}
