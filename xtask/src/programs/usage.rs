//! What a program used: time, processor time, page faults, and memory.

use core::time::Duration;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use nix::sys::resource::{Usage as ResourceUsage, UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// What a program and its children used.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Usage {
    /// Elapsed time in seconds.
    pub(super) seconds: f64,
    /// Processor time in seconds, of the program and the kernel.
    pub(super) processor_seconds: f64,
    /// Page faults that needed no disk.
    pub(super) faults: u64,
    /// Peak resident memory in KiB: of the largest process of a command, but of the process that
    /// started it at least, and of all processes of a server without what they share.
    pub(super) peak_kib: u64,
}

/// What the loader says of an object that it does not load.
const REFUSED: &str = "cannot be preloaded";

/// Runs a command `times` under `preload`; the usage is that of one run. Its output goes to `log`.
///
/// A process of its own (`cargo xtask measured`) waits for it, because the kernel reports the usage
/// of all children at once.
pub(super) fn of_command(
    preload: &Path,
    log: &Path,
    command: &Command,
    times: u32,
) -> anyhow::Result<Usage> {
    let report = log.with_extension("usage");
    // This program, even if it was built anew meanwhile.
    let mut measured = Command::new("/proc/self/exe");
    measured
        .arg("measured")
        .arg(times.to_string())
        .arg(preload)
        .arg(&report)
        .arg(command.get_program());
    measured.args(command.get_args()).stdin(Stdio::null());
    if let Some(folder) = command.get_current_dir() {
        measured.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            measured.env(name, value);
        }
    }
    let output = std::fs::File::create(log)?;
    let status = measured.stdout(output.try_clone()?).stderr(output).status()?;
    ensure!(status.success(), "{status}: {}", last_lines(log));
    let is_refused = std::fs::read_to_string(log).is_ok_and(|text| text.contains(REFUSED));
    ensure!(!is_refused, "the loader refuses {}", preload.display());
    serde_json::from_str(&std::fs::read_to_string(&report)?).context("the usage of a command")
}

/// `cargo xtask measured`: runs a command and writes its usage to a file.
pub fn measured(times: u32, preload: &Path, report: &Path, words: &[String]) -> anyhow::Result<()> {
    let (program, arguments) = words.split_first().context("no command")?;
    let begin = Instant::now();
    for _ in 0..times {
        let status = Command::new(program).args(arguments).env("LD_PRELOAD", preload).status();
        let status = status.with_context(|| format!("cannot run {program}"))?;
        ensure!(status.success(), "{program} ended with {status}");
    }
    let seconds = begin.elapsed().as_secs_f64() / f64::from(times);
    let children = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let usage = Usage {
        seconds,
        processor_seconds: processor_seconds(&children) / f64::from(times),
        faults: u64::try_from(children.minor_page_faults())? / u64::from(times),
        peak_kib: u64::try_from(children.max_rss())?,
    };
    std::fs::write(report, serde_json::to_string(&usage)?)?;
    Ok(())
}

fn processor_seconds(usage: &ResourceUsage) -> f64 {
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

/// The last two lines of a file.
pub(super) fn last_lines(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(2)..].join("; ");
    if last.is_empty() { "no output".to_owned() } else { last }
}

/// What a server that still runs has used, with its children.
pub(super) fn of_server(pid: u32) -> anyhow::Result<Usage> {
    let mut usage = Usage::default();
    let tree = tree(pid)?;
    for process in &tree {
        // A child may end while we look.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { continue };
        let Ok(status) = std::fs::read_to_string(format!("/proc/{process}/status")) else {
            continue;
        };
        // proc_pid_stat(5): after the name in parentheses, from the third field on.
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
        let field = |number: usize| -> u64 {
            fields.get(number - 3).and_then(|field| field.parse().ok()).unwrap_or(0)
        };
        usage.faults += field(10) + field(11);
        usage.processor_seconds +=
            (field(14) + field(15) + field(16) + field(17)) as f64 / TICKS_PER_SECOND;
        let of = |name: &str| -> u64 {
            let line = status.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
        };
        // What several processes share is left out, for it would count for each of them.
        usage.peak_kib += if tree.len() == 1 { of("VmHWM:") } else { of("RssAnon:") };
    }
    Ok(usage)
}

/// Linux reports processor time in hundredths of a second to programs, whatever it uses itself.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process and those below it.
fn tree(pid: u32) -> anyhow::Result<Vec<u32>> {
    let mut tree = vec![pid];
    let mut next = 0;
    while let Some(process) = tree.get(next).copied() {
        next += 1;
        for task in std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten() {
            let children = std::fs::read_to_string(task?.path().join("children"));
            let children = children.unwrap_or_default();
            tree.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
    }
    Ok(tree)
}

/// Repeats `ready` until it is true, for at most a minute.
pub(super) fn wait_until(what: &str, mut ready: impl FnMut() -> bool) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !ready() {
        ensure!(begin.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
