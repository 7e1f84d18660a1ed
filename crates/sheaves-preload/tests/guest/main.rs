//! A guest in the process: inside `malloc` and its kin a thread of the program calls `mmap`,
//! `munmap`, `mremap`, `mprotect`, `madvise` and `futex`, and no other system call. A filter that
//! kills the process for any other holds that, in each mode and on both engines.
//!
//! `SHEAVES_GUEST_SECONDS` is the time of each program (default 5); all run at the same time.

use core::time::Duration;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

#[expect(dead_code, reason = "shared with another test program, which uses all of it")]
#[path = "../preload/c_programs.rs"]
mod c_programs;

/// The status of a program that may not enter a filter.
const NOT_PERMITTED: i32 = 77;

/// Everything by which the library does more than allocate and free. Two hundred threads share the
/// CPUs, so that a thread which has a lock may not run for seconds: that is not to be reported.
const OPTIONS: [(&str, &str); 5] = [
    ("SHEAVES_RCU_STALL_MS", "0"),
    ("SHEAVES_DECAY_MS", "50"),
    ("SHEAVES_LIMIT", "96M"),
    ("SHEAVES_PROF", "65536"),
    ("SHEAVES_GUARD", "1/8"),
];
/// Written near the limit and at exit, but not in a sandbox that was noticed. By one thread: it may
/// be in the middle of that when another one enters the sandbox.
const FILE: (&str, &str) =
    ("SHEAVES_PROF_FILE", concat!(env!("CARGO_TARGET_TMPDIR"), "/guest.prof"));
const MODES: [&[(&str, &str)]; 3] = [&[], &[("SHEAVES_HARDEN", "1")], &[("SHEAVES_DEBUG", "1")]];
const ENGINES: [&[(&str, &str)]; 2] =
    [&[], &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")]];
/// Without a thread of the library: what its own threads call is all that the program calls.
const ALONE: (&str, &str) = ("SHEAVES_RCU_RECLAIMERS", "0");

fn seconds() -> u64 {
    let given = std::env::var("SHEAVES_GUEST_SECONDS").ok();
    given.map_or(5, |text| text.parse().expect("a number of seconds"))
}

/// A program that runs, and how it was started.
struct Running {
    command: Command,
    child: Child,
}

fn start(program: &Path, words: &[&str], variables: &[(&str, &str)]) -> Running {
    let mut command = Command::new(program);
    command.args(words).env("LD_PRELOAD", c_programs::object()).envs(variables.iter().copied());
    let child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    Running { command, child }
}

impl Running {
    /// Waits for its end; returns status, signal and messages.
    fn wait(mut self, limit: Duration) -> (Option<i32>, Option<i32>, String) {
        let begin = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => break status,
                None if begin.elapsed() > limit => {
                    self.child.kill().expect("a child");
                    panic!("{:?} does not end", self.command);
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let mut text = String::new();
        let mut errors = self.child.stderr.take().expect("piped");
        errors.read_to_string(&mut text).expect("UTF-8");
        (status.code(), status.signal(), text)
    }
}

fn compile() -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guest");
    let mut command = Command::new("gcc");
    command.args(["-O1", "-g", "-Wall", "-Werror", "-fno-builtin", "-pthread"]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/guest.c"));
    c_programs::compile_to(&program, &mut command);
    program
}

#[test]
fn threads_call_what_a_malloc_calls() {
    let (program, seconds) = (compile(), seconds());
    let kinds: [(&str, &[&str], bool); 7] = [
        ("1", &[], false),
        ("8", &[], false),
        ("1", &["lively"], false),
        ("8", &["lively"], false),
        ("1", &["bare"], true),
        ("8", &["bare"], true),
        ("8", &["bare", "lively"], true),
    ];
    let mut running = Vec::new();
    for (mode, engine) in MODES.iter().flat_map(|mode| ENGINES.map(|engine| (mode, engine))) {
        for (threads, words, is_alone) in kinds {
            let seconds = seconds.to_string();
            let words = [&[seconds.as_str(), threads], words].concat();
            let more = if is_alone { Some(ALONE) } else { (threads == "1").then_some(FILE) };
            let variables: Vec<_> =
                OPTIONS.into_iter().chain(more).chain([*mode, engine].concat()).collect();
            running.push(start(&program, &words, &variables));
        }
    }
    for one in running {
        let name = format!("{:?}", one.command);
        match one.wait(Duration::from_secs(10 * seconds + 120)) {
            (Some(0), _, text) => {
                // Children of `_Fork` are ended where another thread held a lock.
                let lines = text.lines().filter(|line| !line.contains("made by _Fork, clone"));
                assert!(lines.count() <= 1, "{name}: {text}");
            }
            (Some(NOT_PERMITTED), ..) => println!("skipped: a filter is not permitted here"),
            (status, signal, text) => panic!("{name}: {status:?}, signal {signal:?}, {text}"),
        }
    }
}

#[test]
fn another_call_is_seen() {
    let program = compile();
    for words in [["5", "1", "opens"], ["5", "8", "opens"]] {
        match start(&program, &words, &OPTIONS).wait(Duration::from_secs(120)) {
            (Some(NOT_PERMITTED), ..) => println!("skipped: a filter is not permitted here"),
            (_, signal, text) => assert_eq!(signal, Some(libc::SIGSYS), "{text}"),
        }
    }
}
