//! The steps that every change must pass. `.ci/run` prepares a bare machine and then runs this.
//!
//! Steps run in order and print to the terminal. The first failure ends the run, because later
//! steps would only repeat it. Those that mostly compile run beside the tests, with a lower
//! priority; what they print comes when the tests have ended.

use core::time::Duration;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};

use crate::{consumers, dist, install, miri, musl, publish, repo, tidy, urcu_examples};

/// Script that runs real programs on Sheaves; it installs what it needs.
const PROGRAMS_SCRIPT: &str = "tests/programs/run";

/// The time limit of a step's command, in seconds: four times the longest step on two CPUs. A
/// command that exceeds it hangs, and its last output shows where.
const COMMAND_SECONDS_MAX: u32 = 2_400;

/// Exit status of `timeout` for a command that exceeded the limit.
const STILL_RUNNING: i32 = 124;

/// How long liburcu's hash table is tested.
const TABLE_MS: u32 = 2_000;

/// These run in a process of their own while the tests run.
const BESIDE: [&str; 10] = [
    "tools",
    "keys",
    "miri",
    "models",
    "features",
    "package",
    "musl",
    "urcu-examples",
    "consumers",
    "dist",
];
/// Where what they print is kept until then.
const BESIDE_LOG: &str = "target/ci-beside.log";

/// Runs the steps of these names at `root`; all if there are none. `lints` and `tests` are names
/// for the first of them, which need the toolchain alone, and for the others.
pub fn run(root: &Path, names: &[String]) -> anyhow::Result<()> {
    let begin = Instant::now();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match names[..] {
        [] => {
            run_steps(root, &lints())?;
            run_tests(root)?;
        }
        ["lints"] => run_steps(root, &lints())?,
        ["tests"] => run_tests(root)?,
        _ => return run_named(root, &names),
    }
    println!("ci: all of these steps passed, in {}", seconds(begin.elapsed()));
    Ok(())
}

fn run_named(root: &Path, names: &[&str]) -> anyhow::Result<()> {
    let mut steps: Vec<Step> = lints().into_iter().chain(tests()).collect();
    for name in names {
        let is_known = steps.iter().any(|step| step.name == *name);
        let known: Vec<_> = steps.iter().map(|step| step.name).collect();
        anyhow::ensure!(is_known, "no step `{name}`; there are lints, tests, {}", known.join(", "));
    }
    steps.retain(|step| names.contains(&step.name));
    run_steps(root, &steps)
}

fn run_tests(root: &Path) -> anyhow::Result<()> {
    let (first, rest): (Vec<_>, Vec<_>) = tests()
        .into_iter()
        .filter(|step| !BESIDE.contains(&step.name))
        .partition(|step| step.name == "test");
    let mut beside = begin_beside(root)?;
    let tested = run_steps(root, &first);
    let status = beside.wait().context("cannot wait for the steps beside the tests")?;
    print!("{}", fs::read_to_string(root.join(BESIDE_LOG)).unwrap_or_default());
    tested?;
    anyhow::ensure!(status.success(), "a step beside the tests failed");
    run_steps(root, &rest)
}

/// Starts this program for the steps [`BESIDE`] the tests.
fn begin_beside(root: &Path) -> anyhow::Result<Child> {
    let log = File::create(root.join(BESIDE_LOG)).context(BESIDE_LOG)?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new("nice");
    command.arg("-n10").arg(program).arg("ci").args(BESIDE).current_dir(root).stdin(Stdio::null());
    command.stderr(log.try_clone().context(BESIDE_LOG)?).stdout(log);
    command.spawn().context("cannot run nice")
}

fn run_steps(root: &Path, steps: &[Step]) -> anyhow::Result<()> {
    let begin = Instant::now();
    let mut passed = 0;
    for step in steps {
        println!("ci: {}: begins", step.name);
        let step_begin = Instant::now();
        let done = (step.action)(root);
        let seconds = seconds(step_begin.elapsed());
        match done {
            Ok(Outcome::Passed) => {
                passed += 1;
                println!("ci: {}: passed in {seconds}", step.name);
            }
            Ok(Outcome::Skipped(why)) => println!("ci: {}: skipped, {why}", step.name),
            Err(error) => {
                println!("ci: {}: FAILED after {seconds}: {error:#}", step.name);
                println!("ci: steps: {passed} passed, 1 failed");
                bail!("step `{}` failed", step.name);
            }
        }
    }
    println!("ci: steps: {passed} passed, 0 failed, in {}", seconds(begin.elapsed()));
    Ok(())
}

/// One named check.
struct Step {
    name: &'static str,
    action: fn(&Path) -> anyhow::Result<Outcome>,
}

#[derive(Debug)]
enum Outcome {
    Passed,
    Skipped(String),
}

/// Cheap steps first, so that small errors cost seconds.
fn lints() -> [Step; 5] {
    [
        Step { name: "fmt", action: |root| cargo(root, &["fmt", "--all", "--check"], &[]) },
        Step { name: "tidy", action: run_tidy },
        Step {
            name: "clippy",
            action: |root| {
                let arguments = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
                cargo(root, &arguments, &[])
            },
        },
        Step { name: "aarch64", action: check_aarch64 },
        Step {
            name: "doc",
            action: |root| {
                cargo(
                    root,
                    &["doc", "--no-deps", "--workspace"],
                    &[("RUSTDOCFLAGS", "-D warnings")],
                )
            },
        },
    ]
}

fn tests() -> [Step; 12] {
    [
        Step { name: "test", action: |root| cargo(root, &["test", "--workspace"], &[]) },
        Step { name: "tools", action: run_tools },
        Step { name: "keys", action: run_keys },
        Step { name: "miri", action: run_miri },
        Step { name: "models", action: run_models },
        Step { name: "features", action: run_features },
        Step { name: "package", action: |root| publish::package(root).map(|()| Outcome::Passed) },
        Step { name: "musl", action: run_musl },
        Step { name: "urcu-examples", action: run_urcu_examples },
        Step { name: "consumers", action: run_consumers },
        Step { name: "dist", action: run_dist },
        Step { name: "programs", action: run_programs },
    ]
}

fn run_tidy(root: &Path) -> anyhow::Result<Outcome> {
    let findings = tidy::run(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    anyhow::ensure!(findings.is_empty(), "{} findings", findings.len());
    Ok(Outcome::Passed)
}

fn run_urcu_examples(root: &Path) -> anyhow::Result<Outcome> {
    if !urcu_examples::are_there() {
        return Ok(Outcome::Skipped("liburcu-dev is not installed".into()));
    }
    urcu_examples::run(root, TABLE_MS).map(|()| Outcome::Passed)
}

fn run_consumers(root: &Path) -> anyhow::Result<Outcome> {
    if !install::has_cargo_c(root) {
        return Ok(Outcome::Skipped("cargo-c is not installed: run `cargo xtask tools`".into()));
    }
    consumers::run(root).map(|()| Outcome::Passed)
}

/// The code for aarch64, where the toolchain has the target; nothing is linked or run.
fn check_aarch64(root: &Path) -> anyhow::Result<Outcome> {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    if !repo::has_target(root, TARGET)? {
        return Ok(Outcome::Skipped(format!("no target: run `rustup target add {TARGET}`")));
    }
    let libraries = ["-p", "sheaves", "-p", "sheaves-capi", "-p", "sheaves-preload"];
    let arguments = [&["clippy", "--target", TARGET], &libraries[..], &["--", "-D", "warnings"]];
    cargo(root, &arguments.concat(), &[])
}

/// Static programs, where the toolchain has the target.
fn run_musl(root: &Path) -> anyhow::Result<Outcome> {
    let target = musl::TARGET;
    if !repo::has_target(root, target)? {
        return Ok(Outcome::Skipped(format!("no target: run `rustup target add {target}`")));
    }
    musl::run(root).map(|()| Outcome::Passed)
}

/// The features of the crate for Rust programs: each alone, then all of them.
fn run_features(root: &Path) -> anyhow::Result<Outcome> {
    for feature in ["foldhash", "rayon", "serde"] {
        cargo(root, &["check", "-p", "sheaves", "--features", feature], &[])?;
    }
    let features = ["--features", "foldhash,rayon,serde"];
    let test = |which: &[&str]| {
        cargo(root, &[&["test", "-p", "sheaves"], which, &features[..]].concat(), &[])
    };
    test(&["--test", "features"])?;
    test(&["--doc"])
}

/// Builds cargo-c for `consumers` and `dist`; without a network they are skipped.
fn run_tools(root: &Path) -> anyhow::Result<Outcome> {
    Ok(match install::tools(root) {
        Ok(()) => Outcome::Passed,
        Err(error) => Outcome::Skipped(format!("cargo-c cannot be installed: {error:#}")),
    })
}

/// The models of the protocols, which need a build of their own.
fn run_models(root: &Path) -> anyhow::Result<Outcome> {
    cargo(root, &["test", "--workspace", "--test", "models"], &[("SHEAVES_MODELS", "1")])
}

/// The fallback in which threads find their records through libc's keys; a build of its own, too.
fn run_keys(root: &Path) -> anyhow::Result<Outcome> {
    let arguments = ["test", "-p", "sheaves-rcu", "--test", "keys"];
    let folder = root.join("target/keys");
    let folder = folder.to_str().context("the path is not UTF-8")?;
    let environment = [("RUSTFLAGS", "--cfg sheaves_keys"), ("CARGO_TARGET_DIR", folder)];
    cargo(root, &arguments, &environment)
}

/// Tests in Miri, or where that is not installed, of the code for it.
fn run_miri(root: &Path) -> anyhow::Result<Outcome> {
    miri::run(root, !miri::is_installed(root)).map(|()| Outcome::Passed)
}

/// Makes the packages. Testing them on a clean system takes minutes and a mirror: `cargo xtask dist
/// --check` does that for releases.
fn run_dist(root: &Path) -> anyhow::Result<Outcome> {
    if let Some(missing) = dist::missing(root, None) {
        return Ok(Outcome::Skipped(missing));
    }
    dist::try_all(root).map(|()| Outcome::Passed)
}

fn run_programs(root: &Path) -> anyhow::Result<Outcome> {
    let script = root.join(PROGRAMS_SCRIPT);
    if !script.is_file() {
        return Ok(Outcome::Skipped(format!("{PROGRAMS_SCRIPT} does not exist")));
    }
    run_to_end(Command::new(script).current_dir(root))
}

fn cargo(root: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> anyhow::Result<Outcome> {
    let mut command = repo::cargo(root);
    command.args(arguments).envs(environment.iter().copied());
    run_to_end(&mut command)
}

/// Runs a command with our output and without input, within the time limit.
fn run_to_end(command: &mut Command) -> anyhow::Result<Outcome> {
    run_within(command, COMMAND_SECONDS_MAX)
}

/// [`run_to_end`] with a limit of `seconds`. The program `timeout` also ends what the command has
/// started, which a test that hangs would leave behind.
fn run_within(command: &Command, seconds: u32) -> anyhow::Result<Outcome> {
    let name = command.get_program().to_string_lossy();
    let mut limited = Command::new("timeout");
    limited.arg("--kill-after=10").arg(seconds.to_string());
    limited.arg(command.get_program()).args(command.get_args()).stdin(Stdio::null());
    if let Some(directory) = command.get_current_dir() {
        limited.current_dir(directory);
    }
    for (variable, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(variable, value),
            None => limited.env_remove(variable),
        };
    }
    let status = limited.status().with_context(|| format!("cannot run {name}"))?;
    anyhow::ensure!(
        status.code() != Some(STILL_RUNNING),
        "{name} was still running after {seconds} s"
    );
    anyhow::ensure!(status.success(), "{name} ended with {status}");
    Ok(Outcome::Passed)
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
#[path = "../tests/unit/ci.rs"]
mod tests;
