//! Forwards the signals that are sent to `sheaves run` alone.
//!
//! The program is in our process group, so signals from the terminal (Ctrl-C, Ctrl-Z, hang-up)
//! reach it directly. A signal that another process sends to our process id is meant for the
//! program and is forwarded. The signals are blocked and read from a signalfd, which leaves their
//! dispositions unchanged: `nohup` still works.

use std::io;
use std::thread;

use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use nix::unistd::Pid;

use crate::run::child::Child;

/// Signals that callers send to a program that they started.
const FORWARDED: [Signal; 8] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
    Signal::SIGTSTP,
];

/// The signals, blocked and not yet forwarded.
#[derive(Debug)]
pub(crate) struct Blocked {
    /// The mask before, which the program inherits.
    pub(crate) before: SigSet,
    descriptor: SignalFd,
}

impl Blocked {
    /// Blocks the forwarded signals in this thread and in those that it starts.
    pub(crate) fn block() -> io::Result<Self> {
        let signals: SigSet = FORWARDED.into_iter().collect();
        let before = SigSet::thread_get_mask()?;
        signals.thread_block()?;
        Ok(Self { before, descriptor: SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC)? })
    }

    /// Starts the thread that forwards; it ends with the process. `child` must not be reaped
    /// before, because its process id could then belong to another process.
    pub(crate) fn forward_to(self, child: Child) -> io::Result<()> {
        let forward_all = move || {
            while let Ok(Some(info)) = self.descriptor.read_signal() {
                forward(&info, child);
            }
        };
        thread::Builder::new().name("signals".into()).spawn(forward_all).map(drop)
    }
}

fn forward(info: &siginfo, child: Child) {
    let Ok(signal) = Signal::try_from(info.ssi_signo.cast_signed()) else { return };
    // `si_code` <= 0: sent by a process. Above: by the kernel, to the whole job. A signal that the
    // program sends to its own process group has reached it already.
    if info.ssi_code <= 0 && info.ssi_pid != child.id() {
        // The kernel refuses if the program has changed its user; it would have refused the sender,
        // too.
        let _ = kill(Pid::from_raw(child.id().cast_signed()), signal);
    }
    if signal == Signal::SIGTSTP {
        stop_with_program();
    }
}

/// Takes the default action of the stop signal, so that the shell sees its job stop. The kernel
/// ignores the signal in an orphaned process group, where no shell could continue us.
fn stop_with_program() {
    let stop = SigSet::from(Signal::SIGTSTP);
    if raise(Signal::SIGTSTP).is_ok() && stop.thread_unblock().is_ok() {
        let _ = stop.thread_block();
    }
}
