//! A server of one round: started under an allocator, loaded by a client, measured, stopped.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::usage::{self, Usage, last_lines, wait_until};
use crate::repo;

/// A server that runs; stopped when dropped.
pub(super) struct Server {
    child: Child,
    /// What it had used when the load began.
    before: Usage,
    begin: Instant,
    /// The most memory of all its processes that a thread has seen since the load began. The thread
    /// ends with this.
    peak_kib: Arc<AtomicU64>,
}

/// How often the memory of several processes is added up. A server forks some for each client.
const LOOK: Duration = Duration::from_millis(50);

impl Server {
    /// Starts `command` under `preload` and waits until `ready`.
    pub(super) fn start(
        preload: &Path,
        log: &Path,
        command: &mut Command,
        ready: impl FnMut() -> bool,
    ) -> anyhow::Result<Server> {
        let output = std::fs::File::create(log)?;
        command.env("LD_PRELOAD", preload).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot run {name}"))?;
        let (before, begin) = (Usage::default(), Instant::now());
        let mut server = Server { child, before, begin, peak_kib: Arc::default() };
        wait_until(&name, ready).with_context(|| last_lines(log))?;
        ensure!(server.child.try_wait()?.is_none(), "{name} has ended: {}", last_lines(log));
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.child.id()))?;
        let object = std::fs::canonicalize(preload)?;
        ensure!(
            maps.contains(&*object.to_string_lossy()),
            "{name} runs without {}",
            object.display()
        );
        Ok(server)
    }

    /// The load begins now.
    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        self.before = usage::of_server(self.child.id())?;
        self.peak_kib = Arc::default();
        let (peak, process) = (Arc::downgrade(&self.peak_kib), self.child.id());
        std::thread::spawn(move || {
            while let Some(peak_kib) = peak.upgrade() {
                // A process may end while we look.
                let now_kib = usage::of_server(process).map_or(0, |usage| usage.peak_kib);
                // Relaxed: a number.
                peak_kib.fetch_max(now_kib, Ordering::Relaxed);
                drop(peak_kib);
                std::thread::sleep(LOOK);
            }
        });
        self.begin = Instant::now();
        Ok(())
    }

    /// The load has ended: what it has used.
    pub(super) fn end(&mut self) -> anyhow::Result<Usage> {
        let seconds = self.begin.elapsed().as_secs_f64();
        let after = usage::of_server(self.child.id())?;
        ensure!(self.child.try_wait()?.is_none(), "the server has ended");
        Ok(Usage {
            seconds,
            processor_seconds: after.processor_seconds - self.before.processor_seconds,
            faults: after.faults.saturating_sub(self.before.faults),
            // Relaxed: as above.
            peak_kib: after.peak_kib.max(self.peak_kib.load(Ordering::Relaxed)),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // The server may have ended by itself; either way it is waited for.
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        drop(self.child.wait());
    }
}

/// What a client prints.
pub(super) fn client(command: &mut Command) -> anyhow::Result<String> {
    repo::output_of(command.stdin(Stdio::null()))
}

/// The first number after `before` in a client's output.
pub(super) fn number_after(output: &str, before: &str) -> anyhow::Result<f64> {
    let rest = output.split(before).nth(1);
    let rest = rest.with_context(|| format!("no `{before}` in what a client printed: {output}"))?;
    let digits: String = rest
        .trim_start_matches(|letter: char| !letter.is_ascii_digit())
        .chars()
        .take_while(|letter| letter.is_ascii_digit() || *letter == '.')
        .collect();
    digits.parse().with_context(|| format!("no number after `{before}`: {output}"))
}
