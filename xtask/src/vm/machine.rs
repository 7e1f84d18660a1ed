//! The machine: qemu, its console, and the time limit.

use core::time::Duration;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Context as _, bail};

use super::options::Options;
use crate::arch::Arch;

/// The line before the exit status of the machine's command.
pub(super) const STATUS: &str = "sheaves-vm: exit status";

pub(super) struct Machine<'a> {
    pub(super) options: &'a Options,
    pub(super) kernel: &'a Path,
    pub(super) initramfs: &'a Path,
}

impl Machine<'_> {
    /// Runs the machine and prints its console; the status of its command.
    pub(super) fn run(&self) -> anyhow::Result<u8> {
        let end = Instant::now() + Duration::from_secs(60 * self.options.minutes);
        let mut qemu = Stopped(self.qemu().spawn().context("cannot run qemu")?);
        let console = qemu.0.stdout.take().context("a pipe")?;
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut console = BufReader::new(console);
            let mut line = Vec::new();
            while console.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes != 0) {
                let text = String::from_utf8_lossy(&line).trim_end().to_owned();
                line.clear();
                if send.send(text).is_err() {
                    return;
                }
            }
        });
        loop {
            match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    println!("{line}");
                    if let Some((_, status)) = line.split_once(STATUS) {
                        return status.trim().parse().context("the machine's exit status");
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    bail!("stopped after {} minutes", self.options.minutes)
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    bail!("the machine stopped before its command had ended")
                }
            }
        }
    }

    fn qemu(&self) -> Command {
        let arch = self.options.arch;
        let mut qemu = Command::new(format!("qemu-system-{}", arch.name()));
        let (accelerator, cpu) = match (self.options.hardware, arch) {
            (true, _) => ("kvm", "host"),
            (false, Arch::aarch64) => ("tcg,thread=multi", "neoverse-n1"),
            (false, Arch::x86_64) => ("tcg,thread=multi", "max"),
        };
        // An emulated CPU can trap while the kernel patches itself. That ends Linux 6.12 with many
        // CPUs when it finds its clock unstable, so the clock is declared to be stable.
        let (machine, console, clock) = match arch {
            Arch::aarch64 => ("virt,gic-version=3", "ttyAMA0", ""),
            Arch::x86_64 => ("q35", "ttyS0", "tsc=reliable"),
        };
        println!("vm: {} CPUs, {accelerator}, {}", self.options.cpus, self.kernel.display());
        qemu.args(["-machine", machine, "-accel", accelerator, "-cpu", cpu]);
        qemu.arg("-smp").arg(self.options.cpus.to_string());
        qemu.arg("-m").arg(self.options.memory_mib.to_string());
        qemu.args(["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"]);
        qemu.arg("-kernel").arg(self.kernel).arg("-initrd").arg(self.initramfs);
        qemu.arg("-append").arg(format!("console={console} quiet panic=-1 {clock}"));
        qemu.stdin(Stdio::null()).stdout(Stdio::piped());
        qemu
    }
}

/// Ends the machine when this goes out of scope.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
