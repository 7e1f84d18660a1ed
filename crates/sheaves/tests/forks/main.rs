//! Forks at any point of the program: other threads are in every slow path of every layer. The
//! child of each kind of fork then uses everything, within a few seconds.
//!
//! Each configuration, with each way to fork, is a process of its own. `SHEAVES_TEST_FORKS` sets
//! the number of forks in each configuration, and `SHEAVES_TEST_FORK_KINDS` their kinds
//! (`fork,foreign,bare,clone,handler`). With `SHEAVES_TEST_FORK_DEBUGGER=1` gdb shows the stacks of
//! a child that does not end. `SHEAVES_TEST_FORK_SECONDS` sets the time limit of a child.

use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::env;
use std::process::{Command, ExitCode};
use std::time::Instant;

use kinds::Kind;

mod broken;
mod child;
mod foreign;
mod handler;
mod kinds;
mod memory;
mod parent;
mod watch;
mod work;
mod world;

/// Everything that Rust allocates comes from the heap under test. So a child may allocate although
/// it inherits locks of libc's heap that other threads held.
#[global_allocator]
static HEAP: memory::Sure = memory::Sure;

/// Sets the role of a process: one of the words of [`Role`].
const ROLE: &str = "SHEAVES_TEST_FORK_ROLE";
const FORKS: &str = "SHEAVES_TEST_FORKS";
const KINDS: &str = "SHEAVES_TEST_FORK_KINDS";
/// Forks in each configuration.
const FORKS_DEFAULT: u32 = 40;
/// Time limit of a process; each fork adds the time below.
const PROCESS_SECONDS: u64 = 120;
const FORK_MS: u64 = 500;

type Variables = &'static [(&'static str, &'static str)];

/// Name, options, and whether memory fails.
const CONFIGURATIONS: [(&str, Variables, bool); 4] = [
    ("rseq", &[], false),
    ("rseq, no memory", &[], true),
    ("portable, 3 slots, no memory", PORTABLE_3, true),
    ("portable, 64 slots", PORTABLE_64, false),
];
const PORTABLE_3: Variables = &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "3")];
const PORTABLE_64: Variables = &[("SHEAVES_ENGINE", "portable"), ("SHEAVES_SLOTS", "64")];

/// Kinds of forks that one process can make.
const TOGETHER: [&[Kind]; 3] =
    [&[Kind::Fork, Kind::Foreign], &[Kind::Bare, Kind::Clone], &[Kind::Handler]];

/// Number of this process's children that failed.
static FAILED: AtomicU32 = AtomicU32::new(0);

fn main() -> ExitCode {
    watch::reset_signals();
    match env::var(ROLE).as_deref() {
        Ok("threads") => parent::run(&kinds::asked(KINDS), forks()),
        Ok("handler") => handler::run(forks()),
        Ok("broken") => broken::run(&env::var(broken::BROKEN).unwrap()),
        _ => return run_all(),
    }
    // Relaxed: all forks are over.
    if FAILED.load(Ordering::Relaxed) == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn forks() -> u32 {
    env::var(FORKS).map_or(FORKS_DEFAULT, |text| text.parse().unwrap())
}

/// Runs every configuration with every selected kind, and the variants that must fail.
fn run_all() -> ExitCode {
    let asked = kinds::asked(KINDS);
    let mut failed = Vec::new();
    for (name, variables, is_failing) in CONFIGURATIONS {
        for family in TOGETHER {
            let kinds: Vec<Kind> = family.iter().copied().filter(|k| asked.contains(k)).collect();
            if kinds.is_empty() {
                continue;
            }
            let role = if kinds == [Kind::Handler] { "handler" } else { "threads" };
            let count = (forks() as usize * kinds.len()).div_ceil(asked.len()) as u32;
            let words: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
            let mut command = this_program(role);
            command.envs(variables.iter().copied()).env(KINDS, words.join(","));
            command.env(FORKS, count.to_string());
            if is_failing {
                command.env(memory::FAILING, "1");
            }
            if role == "handler" {
                // The program must have one thread.
                command.env("SHEAVES_RCU_RECLAIMERS", "0");
            }
            let name = format!("{name}: {}", words.join(", "));
            let limit = Duration::from_millis(PROCESS_SECONDS * 1000 + FORK_MS * u64::from(count));
            println!("{name}");
            if ends_well(command, limit) != Some(true) {
                failed.push(name);
            }
        }
    }
    failed.extend(broken::all().filter(|name| broken_passes(name)).map(String::from));
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {failed:#?}");
    ExitCode::FAILURE
}

/// True if a variant that must fail did not, which is a fault of this test.
fn broken_passes(name: &str) -> bool {
    println!("broken, has to fail: {name}");
    let mut command = this_program("broken");
    command.env(broken::BROKEN, name).env(watch::SECONDS, "1");
    ends_well(command, Duration::from_secs(PROCESS_SECONDS)) != Some(false)
}

/// This program again, without the caller's options.
fn this_program(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    for (name, _) in env::vars_os() {
        let is_option = name
            .to_str()
            .is_some_and(|name| name.starts_with("SHEAVES_") && !name.starts_with("SHEAVES_TEST_"));
        if is_option {
            command.env_remove(name);
        }
    }
    command.env(ROLE, role);
    command
}

/// Whether a process succeeds; `None` if it exceeds its time limit, and is killed.
fn ends_well(mut command: Command, limit: Duration) -> Option<bool> {
    let begin = Instant::now();
    let mut process = command.spawn().unwrap();
    while begin.elapsed() < limit {
        if let Some(status) = process.try_wait().unwrap() {
            println!("  {status}, {:.1} s", begin.elapsed().as_secs_f64());
            return Some(status.success());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    watch::show(process.id() as i32);
    let _ = process.kill();
    let _ = process.wait();
    println!("  did not end within {limit:?}");
    None
}
