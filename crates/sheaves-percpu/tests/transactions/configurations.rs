//! Runs the tests of a program again in every configuration that the engine can choose.
//!
//! Each configuration starts the same executable again, because options, glibc's tunable and a
//! seccomp filter take effect before `main`. The child reads the expected configuration from
//! `SHEAVES_EXPECT`, and a test in it compares that with the engine's report. So a configuration
//! that silently fell back to another one is a failure, not a repetition. The tests of the next
//! layer use this file, too.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use sheaves_percpu::internal::{EngineMode, Facts, SlotKind, facts, mode};
use sheaves_sys::{membarrier, rseq};

use crate::seccomp;

#[path = "several_at_a_time.rs"]
mod several_at_a_time;

/// The expected configuration of the child: words of [`describe`].
pub(crate) const EXPECT: &str = "SHEAVES_EXPECT";
/// Set for children that should do less work.
const SMALL: &str = "SHEAVES_TEST_SMALL";
/// Duration of a storm in seconds.
const STORM: &str = "SHEAVES_STORM_SECONDS";
/// Seconds, in addition to the storm, until an alarm ends a child that hangs.
const ALARM_SECONDS: u32 = 240;
/// The same under valgrind.
const VALGRIND_ALARM_SECONDS: u32 = 600;
/// The tunable that keeps glibc from registering rseq.
const NO_LIBC: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");

/// True in a process that should do less work, such as one under valgrind.
pub(crate) fn is_small() -> bool {
    env::var_os(SMALL).is_some()
}

struct Configuration {
    name: &'static str,
    variables: &'static [(&'static str, &'static str)],
    /// System calls that a filter refuses, and its error.
    refused: &'static [libc::c_long],
    errno: i32,
    expect: &'static str,
    /// True when only the start of the engine differs from another configuration, which is nothing
    /// to the layers above.
    of_start: bool,
}

const PLAIN: Configuration =
    Configuration { name: "", variables: &[], refused: &[], errno: 0, expect: "", of_start: false };
const BOTH: &[libc::c_long] = &[libc::SYS_rseq, libc::SYS_membarrier];

const CONFIGURATIONS: &[Configuration] = &[
    Configuration {
        name: "concurrency ids",
        variables: &[("SHEAVES_ENGINE", "rseq")],
        expect: "rseq cid fence",
        ..PLAIN
    },
    Configuration {
        name: "processors",
        variables: &[("SHEAVES_ENGINE", "rseq-cpu")],
        expect: "rseq cpu fence",
        ..PLAIN
    },
    Configuration {
        name: "portable, 2 slots",
        variables: &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "2")],
        expect: "portable virtual slots=2",
        ..PLAIN
    },
    Configuration {
        name: "portable, 64 slots",
        variables: &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")],
        expect: "portable virtual slots=64",
        ..PLAIN
    },
    Configuration {
        name: "own registration",
        variables: &[NO_LIBC],
        expect: "rseq cid fence own",
        ..PLAIN
    },
    Configuration {
        name: "own registration, processors",
        variables: &[NO_LIBC, ("SHEAVES_ENGINE", "rseq-cpu")],
        expect: "rseq cpu fence own",
        of_start: true,
        ..PLAIN
    },
    Configuration {
        name: "a filter without rseq and membarrier",
        refused: BOTH,
        errno: libc::ENOSYS,
        expect: "portable virtual",
        of_start: true,
        ..PLAIN
    },
    Configuration {
        name: "a filter that forbids rseq and membarrier, own registration",
        variables: &[NO_LIBC],
        refused: BOTH,
        errno: libc::EPERM,
        expect: "portable virtual",
        of_start: true,
    },
    Configuration {
        name: "a filter that forbids membarrier",
        refused: &[libc::SYS_membarrier],
        errno: libc::EPERM,
        expect: "rseq cpu no-fence",
        ..PLAIN
    },
];

/// The engine, in the words of expectations.
fn describe(facts: &Facts) -> String {
    let mode = match facts.mode {
        EngineMode::NotStarted => "not-started",
        EngineMode::Rseq => "rseq",
        EngineMode::Portable => "portable",
    };
    let kind = match facts.slot_kind {
        SlotKind::MmCid => "cid",
        SlotKind::CpuId => "cpu",
        SlotKind::Virtual => "virtual",
    };
    let is_libcs = facts.mode == EngineMode::Rseq && sheaves_sys::tls::libc_rseq_offset().is_some();
    let libc = if is_libcs { "libc" } else { "own" };
    let fence = if facts.fence { "fence" } else { "no-fence" };
    format!("{mode} {kind} {libc} {fence} slots={}", facts.slots)
}

/// The engine is the one that the configuration expects; without a configuration, any engine is.
#[test]
fn engine_is_the_expected_one() {
    let found = describe(&facts());
    let expected = env::var(EXPECT).unwrap_or_default();
    for word in expected.split_whitespace() {
        assert!(found.split(' ').any(|other| other == word), "not {word}: {found}");
    }
    assert_ne!(mode(), EngineMode::NotStarted);
}

/// Why this kernel does not support a configuration.
fn obstacle(configuration: &Configuration) -> Option<&'static str> {
    let wants = |word| configuration.expect.split(' ').any(|other| other == word);
    if wants("rseq") && !kernel_has_rseq() {
        return Some("the kernel has no rseq for us");
    }
    if wants("cid") && rseq::feature_bytes() < rseq::MM_CID_OFFSET + 4 {
        return Some("the kernel has no concurrency ids");
    }
    if wants("fence") && !membarrier::register_abort_sections() {
        return Some("the kernel has no membarrier for sequences");
    }
    None
}

/// True when the system call exists and no filter refuses it: it returns EINVAL.
fn kernel_has_rseq() -> bool {
    // SAFETY: the kernel refuses a null area of length 0 without an access.
    let status = unsafe { libc::syscall(libc::SYS_rseq, 0, 0, 0, 0) };
    status == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// This executable, without the test that starts it and without the caller's options.
fn command(program: Command, skip: &[&str]) -> Command {
    let mut command = program;
    for name in ["in_every_configuration"].iter().chain(skip) {
        command.args(["--skip", name]);
    }
    for name in ["SHEAVES_ENGINE", "SHEAVES_SLOTS", "GLIBC_TUNABLES"] {
        command.env_remove(name);
    }
    if env::var_os(STORM).is_none() {
        command.env(STORM, "1");
    }
    command
}

fn alarm_seconds() -> u32 {
    let storm = env::var(STORM).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    ALARM_SECONDS + 4 * storm
}

/// Runs all other tests of this executable under valgrind and in every configuration, `at_once` at
/// a time; panics when one fails. `every_start`: also where only the start of the engine differs.
pub(crate) fn run_all(at_once: usize, every_start: bool) {
    let wanted = CONFIGURATIONS.iter().filter(|one| every_start || !one.of_start);
    // Valgrind takes longest: it begins first.
    let jobs = [None].into_iter().chain(wanted.map(Some));
    let failed = several_at_a_time::failed(at_once, jobs, |job| {
        let (name, passed) = match job {
            None => ("valgrind", run_under_valgrind()),
            Some(configuration) => (configuration.name, run_if_supported(configuration)),
        };
        if passed { Ok(()) } else { Err(name.to_owned()) }
    });
    assert!(failed.is_empty(), "failed: {failed:?}");
}

fn run_if_supported(configuration: &Configuration) -> bool {
    if let Some(why) = obstacle(configuration) {
        println!("skipped: {}: {why}", configuration.name);
        return true;
    }
    run(configuration)
}

fn run(configuration: &Configuration) -> bool {
    let mut command = command(Command::new(env::current_exe().unwrap()), &[]);
    command.envs(configuration.variables.iter().copied()).env(EXPECT, configuration.expect);
    let program = seccomp::program(configuration.refused, configuration.errno);
    let (filtered, alarm) = (!configuration.refused.is_empty(), alarm_seconds());
    let prepare = move || {
        // SAFETY: integers only. The alarm outlives exec.
        unsafe { libc::alarm(alarm) };
        if filtered { seccomp::install(&program) } else { Ok(()) }
    };
    // SAFETY: the closure only makes system calls and uses its own memory.
    unsafe { command.pre_exec(prepare) };
    finish(configuration.name, &mut command)
}

/// Runs under valgrind, which has no rseq, so the portable engine is chosen without an option.
fn run_under_valgrind() -> bool {
    if cfg!(target_env = "musl") {
        println!("skipped: valgrind reports musl's own malloc in static programs");
        return true;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed");
        return true;
    }
    let mut valgrind = Command::new("valgrind");
    // Fair scheduling: with the default lock, one thread of a storm may starve the others. Locks of
    // threads that the child lacks guard what libc would free at the end of a child.
    valgrind.args(["-q", "--error-exitcode=9", "--leak-check=no", "--fair-sched=yes"]);
    valgrind.arg("--run-libc-freeres=no");
    valgrind.arg(env::current_exe().unwrap());
    let mut command = command(valgrind, &[]);
    command.env(EXPECT, "portable virtual").env(SMALL, "1").env(STORM, "1");
    // Tests with an expected panic would spend seconds on the names of its frames.
    command.env("RUST_BACKTRACE", "0");
    let prepare = || {
        // SAFETY: integers only. The alarm outlives exec.
        unsafe { libc::alarm(VALGRIND_ALARM_SECONDS) };
        Ok(())
    };
    // SAFETY: the closure only makes a system call.
    unsafe { command.pre_exec(prepare) };
    finish("valgrind", &mut command)
}

fn finish(name: &str, command: &mut Command) -> bool {
    let begin = std::time::Instant::now();
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            println!("skipped: {name}: filters are not permitted here: {error}");
            return true;
        }
        Err(error) => panic!("{name}: {error}"),
    };
    let passed = output.status.success();
    println!("{name}: {} in {:.1} s", output.status, begin.elapsed().as_secs_f32());
    if !passed {
        println!("{}", String::from_utf8_lossy(&output.stdout));
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    passed
}
